"""The federation of real clients that NVFlare's Collab API reaches."""
