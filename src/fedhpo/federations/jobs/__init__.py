"""NVFlare jobs as they are: run whole in NVFlare's simulator, with values given from outside."""
