"""The dtypes that tests go through."""

#: what arrays may have, besides bfloat16
DTYPES = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64",
          "bool"]  # fmt: skip
NUMPY_TYPES = [*DTYPES, "complex64", "complex128"]
#: that all versions of PyTorch have, too
COMMON_TYPES = [t for t in NUMPY_TYPES if t not in ("uint16", "uint32", "uint64")]
TORCH_TYPES = [*COMMON_TYPES, "bfloat16"]


def odd_torch_types() -> list[str]:
    """The types that PyTorch has and NumPy does not, without quantized ones, of which a tensor is more than numbers."""
    import torch

    dtypes = {getattr(torch, name) for name in dir(torch) if isinstance(getattr(torch, name), torch.dtype)}
    names = sorted(str(dtype).removeprefix("torch.") for dtype in dtypes)
    return [n for n in names if n not in (*NUMPY_TYPES, "bfloat16") and not n.startswith(("qint", "quint"))]
