"""Worker processes: spawned, single-threaded, gone with their parent."""
