"""The data sets that `fedhpo.data.load` knows, one kind a module."""
