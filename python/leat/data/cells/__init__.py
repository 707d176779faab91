"""Single-cell files and arrays of HDF5 and Zarr, opened in place.

hdf5.py, zarrs.py    where the chunks of an array lie, and how they were encoded
stored.py            such arrays, and data sets of their rows
anndata.py           the layout of .h5ad and Zarr: matrices, and columns of obs and var
tenx.py, scdl.py     the layouts of 10x Genomics and of BioNeMo's SCDL
scdl_writer.py       writes SCDL
opening.py           several files as one data set, with genes in common
"""
