"""Python data sets as files of leat: ``leat.pack``."""
