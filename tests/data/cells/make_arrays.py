"""Arrays without cells: plain HDF5 and plain zarr; and h5ad by h5py, for filters that few files have."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from make_contents import EXPECTED, KEPT, NEWER, close_store, counts, makes, open_store, small, table

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))  # cells_support


# --- h5ad by h5py ----------------------------------------------------------------------------------------------------


def filtered_cells():
    """Small whole numbers: a filter that makes a chunk no smaller is left out of it."""
    return {**small(), "X": counts()[:, KEPT].astype(np.float32)}


def filtered(name, options, matrix=None):
    """X in chunks of 24 values, the numbers of genes and the row pointers with 64 bits."""

    @makes(name, "today", filtered_cells)
    def make(path):
        import hdf5plugin
        import scipy.sparse as sp
        from cells_support import write_h5ad

        holds = filtered_cells()
        x = (matrix or sp.csr_matrix)(holds["X"])
        storage = {"chunks": (24,), "index_dtype": "i8", "indptr_dtype": "i8", "libver": NEWER, **options(hdf5plugin)}
        write_h5ad(path, x, obs_names=holds["obs_names"], var_names=holds["var_names"], **storage)


def unsorted(values):
    """CSR whose rows are out of order, with stored zeros: both are allowed."""
    import scipy.sparse as sp

    draw = np.random.RandomState(10)
    rows = [draw.permutation(np.flatnonzero((row != 0) | (draw.randint(0, 4, len(row)) == 0))) for row in values]
    data = np.concatenate([values[i, row] for i, row in enumerate(rows)])
    return sp.csr_matrix((data, np.concatenate(rows), np.cumsum([0, *map(len, rows)])), values.shape)


filtered("unsorted.h5ad", lambda plugin: {"compression": "lzf", "shuffle": True, "fletcher32": True}, unsorted)
filtered("shuffle-gzip.h5ad", lambda plugin: {"compression": "gzip", "shuffle": True})
filtered("zstd.h5ad", lambda plugin: dict(plugin.Zstd(clevel=3)))
filtered("blosc.h5ad", lambda plugin: dict(plugin.Blosc(cname="lz4", clevel=5, shuffle=plugin.Blosc.SHUFFLE)))


# --- zarr ------------------------------------------------------------------------------------------------------------


def one_array(name, zarr_format, **options):
    """A store that is one array, compressed as zarr does of itself: with zstd."""

    @makes(name, "today", lambda: {"": table()})
    def make(path):
        import zarr

        store = open_store(path)
        zarr.create_array(store, data=table(), zarr_format=zarr_format, **options)
        close_store(store, path)


one_array("array-v2.zarr", 2, chunks=(5, 4))
one_array("array-v2.zarr.zip", 2, chunks=(5, 4))
one_array("array-v3.zarr", 3, chunks=(5, 4))
one_array("array-v3-sharded.zarr", 3, chunks=(2, 2), shards=(6, 4))
one_array("array-v3-sharded.zarr.zip", 3, chunks=(2, 2), shards=(6, 4))

PART = (slice(2, 7), slice(3, 6))  # of an array of 13 x 7 that is written in part


def in_part(fill):
    values = np.full((13, 7), fill, "<f4")
    values[PART] = table()[PART]
    return values


def zarr_arrays():
    """By path: of both versions, each stored in another way."""
    return {
        "plain": table(),
        "blosc": table("<i4", (20, 30)),  # in chunks that it makes smaller, unlike those of few bytes
        "gzip": table("<f8"),
        "big_endian": table(">i2"),
        "column_order": table("<u2"),
        "separator": table("<i8"),
        "part": in_part(-1.5),
        "never": np.full((4, 3), 9, "<i4"),
        "fill_nan": in_part(np.nan),
        "flags": table() > 10,
        "half": table("<f2"),
        "scalar": np.array(42.5),
        "three": table("u1", (5, 6, 7)),
        "deep/er/line": table("<u8", (50,)),
    }


@makes("arrays-v2.zarr", "today", lambda: {**zarr_arrays(), "zlib_delta": table("<i4")})
def make_zarr_v2(path):
    import numcodecs

    options = {
        "plain": {"compressors": None},
        "blosc": {"chunks": (17, 13), "compressors": numcodecs.Blosc("lz4", 5, numcodecs.Blosc.BITSHUFFLE)},
        "gzip": {"compressors": numcodecs.GZip(6)},
        "big_endian": {"compressors": numcodecs.LZ4()},
        "column_order": {"order": "F"},
        "separator": {"chunk_key_encoding": {"name": "v2", "separator": "/"}},
        "zlib_delta": {"filters": [numcodecs.Delta("<i4")], "compressors": numcodecs.Zlib(6)},
        "three": {"chunks": (2, 4, 3)},
        "deep/er/line": {"chunks": (16,)},
    }
    in_groups(path, 2, options)


@makes("arrays-v3.zarr", "today", lambda: {**zarr_arrays(), "index_at_start": table(), "shards_in_part": in_part(0)})
def make_zarr_v3(path):
    from zarr.codecs import BloscCodec, BytesCodec, GzipCodec, ShardingCodec, TransposeCodec

    sharding = ShardingCodec(chunk_shape=(3, 2), codecs=[BytesCodec(), GzipCodec()], index_location="start")
    options = {
        "plain": {"compressors": None},
        "blosc": {"chunks": (17, 13), "compressors": BloscCodec(cname="zstd", shuffle="shuffle", typesize=4)},
        "gzip": {"compressors": GzipCodec(level=6)},
        "big_endian": {"serializer": BytesCodec(endian="big")},
        "column_order": {"filters": [TransposeCodec(order=(1, 0))]},
        "separator": {"chunk_key_encoding": {"name": "default", "separator": "."}},
        "index_at_start": {"chunks": (6, 4), "serializer": sharding, "compressors": None},
        "shards_in_part": {"chunks": (2, 2), "shards": (4, 4)},
        "three": {"chunks": (2, 4, 3)},
        "deep/er/line": {"chunks": (16,), "chunk_key_encoding": {"name": "v2", "separator": "."}},
    }
    in_groups(path, 3, options)


def in_groups(path, zarr_format, options):
    import zarr

    store = open_store(path)
    root = zarr.open_group(store, mode="w", zarr_format=zarr_format)
    for name, values in EXPECTED[path.name]().items():
        fill = {"part": -1.5, "never": 9, "fill_nan": np.nan}.get(name, 0)
        how = {"chunks": (5, 4) if values.ndim == 2 else values.shape, "fill_value": fill, **options.get(name, {})}
        array = root.create_array(name, shape=values.shape, dtype=values.dtype, **how)
        if name in ("part", "fill_nan", "shards_in_part"):
            array[PART] = values[PART]
        elif name != "never":
            array[...] = values
    close_store(store, path)


# --- plain HDF5 ------------------------------------------------------------------------------------------------------


def plain_newer():
    """By path, which says how it is stored."""
    holes = np.full((10, 7), -1, "<i4")
    holes[:4, 3:6] = table("<i4", (4, 3))
    holes[8:, 6:] = 77
    return {
        "line": table("<i4", (100,)),
        "two": table("<f4", (11, 9)),
        "two_fletcher": table("<f8", (11, 9)),
        "three": table("u1", (5, 6, 7)),
        "contiguous_big": table(">f4", (6, 5)),
        "chunked_big": table(">i8", (6, 5)),
        "compact": table("<i2", (4, 3)),
        "scalar": np.array(42.5),
        "holes": holes,
        "never": np.full((6, 5), 9, "<i4"),
        "short": table("<u2", (3,)),
        "grown": table("<f2", (7, 6)),
        "empty": np.zeros((0, 4), "<f4"),
        "some_unfiltered": table("<i4", (8, 6)),
        "flags": table("<f4", (12,)) > 10,
        "texts": np.array(["a", "", "µm", "a longer text", "日本"]),
        "fixed_texts": np.array(["ab", "", "abcde"]),
        "deep/er/line": table("<u8", (50,)),
        "link": table("<f4", (11, 9)),
        "early": table("<i4", (11, 9)),
        "single": table("<i4", (3, 3)),
    }


def plain():
    names = ["line", "three", "contiguous_big", "scalar", "holes", "never", "some_unfiltered"]
    return {name: plain_newer()[name] for name in names}


def low_level(file, name, values, **properties):
    """A data set whose creation properties h5py's own function has no words for."""
    import h5py

    made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    for prop, value in properties.items():
        getattr(made, "set_" + prop)(value)
    kind, space = h5py.h5t.py_create(values.dtype), h5py.h5s.create_simple(values.shape)
    h5py.h5d.create(file.id, name.encode(), kind, space, made).write(h5py.h5s.ALL, h5py.h5s.ALL, values)


def fill_plain(file, holds):
    """Each data set in its way; those without one here are as h5py makes them."""
    import h5py

    gzipped = {"compression": "gzip", "shuffle": True}
    options = {
        "line": {"chunks": (16,), "compression": "gzip"},
        "two": {"chunks": (4, 4)},
        "two_fletcher": {"chunks": (4, 4), "fletcher32": True, **gzipped},
        "three": {"chunks": (2, 4, 3), "compression": "gzip"},
        "chunked_big": {"chunks": (4, 2), **gzipped},
        "holes": {"chunks": (4, 3), "fillvalue": -1, "compression": "gzip"},
        "never": {"fillvalue": 9},
        "short": {"chunks": (8,), "maxshape": (None,)},
        "grown": {"chunks": (3, 4), "maxshape": (None, None)},
        "empty": {"chunks": (4, 4), "maxshape": (None, 4)},
        "some_unfiltered": {"chunks": (4, 3), **gzipped},
        "flags": {"chunks": (5,)},
        "texts": {"chunks": (2,), "dtype": h5py.string_dtype()},
        "fixed_texts": {"dtype": "S5"},
        "deep/er/line": {"chunks": (16,), "maxshape": (None,), "compression": "lzf"},
        "single": {"chunks": (3, 3), "compression": "gzip"},
    }
    for name, values in holds.items():
        how = options.get(name, {})
        if "/" in name:
            file.create_group("deep").create_group("er")
        if name == "compact":
            low_level(file, name, values, layout=h5py.h5d.COMPACT)
        elif name == "early":
            low_level(file, name, values, chunk=(4, 4), alloc_time=h5py.h5d.ALLOC_TIME_EARLY)
        elif name == "link":
            file[name] = h5py.SoftLink("/two")
        elif name in ("holes", "never"):
            made = file.create_dataset(name, values.shape, values.dtype, **how)
            if name == "holes":
                made[:4, 3:6], made[8:, 6:] = values[:4, 3:6], 77
        elif values.dtype.kind == "U":
            texts = [text.encode() for text in values]
            file.create_dataset(name, data=texts, **how)
        else:
            file.create_dataset(name, data=values, **how)
    chunk = np.ascontiguousarray(holds["some_unfiltered"][4:, :3]).tobytes()  # neither shuffled nor deflated
    file["some_unfiltered"].id.write_direct_chunk((4, 0), chunk, filter_mask=0b11)


def fill_refused(file):
    """What a reader may have to refuse."""
    import h5py

    file.create_group("refused")
    file.create_dataset("refused/scale_offset", data=table("<i4"), chunks=(5, 4), scaleoffset=0)
    file.create_dataset("refused/null", data=h5py.Empty("<f4"))
    file.create_dataset("refused/complex", data=np.array([1 + 2j, 3]))
    file.create_dataset("refused/compound", data=np.array([(1, 2.5)], [("a", "<i4"), ("b", "<f8")]))
    virtual = h5py.VirtualLayout((2, 11, 9), "<f4")
    virtual[0] = virtual[1] = h5py.VirtualSource(file["two"])
    file.create_virtual_dataset("refused/virtual", virtual)
    file["refused/external"] = h5py.ExternalLink("elsewhere.h5", "/two")
    file["refused/dangling"] = h5py.SoftLink("/nowhere")


@makes("plain.h5", "today", plain)
def make_plain(path):
    """Chunks are found through B-trees of version 1, as in most files there are."""
    import h5py

    with h5py.File(path, "w") as file:
        fill_plain(file, plain())


@makes("plain-newer.h5", "today", plain_newer)
def make_plain_newer(path):
    """With the newer ways to find chunks (one chunk, implicit, fixed and extensible arrays, B-trees of version 2), and
    behind a user block of 512 bytes, from whose end addresses count."""
    import h5py

    with h5py.File(path, "w", libver=NEWER, userblock_size=512) as file:
        fill_plain(file, plain_newer())
        fill_refused(file)
    with open(path, "r+b") as file:
        file.write(b"A user block: HDF5 begins at byte 512.\n")
