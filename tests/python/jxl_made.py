"""JPEG XL files, by the encoder of the machine's libjxl through ctypes (its headers, 0.7 to 0.12)."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_size_t, c_uint8, c_uint32, c_void_p
from typing import Any

import numpy as np
import pytest


class BasicInfo(ctypes.Structure):
    _fields_ = [
        ("have_container", c_int), ("xsize", c_uint32), ("ysize", c_uint32), ("bits_per_sample", c_uint32),
        ("exponent_bits_per_sample", c_uint32), ("intensity_target", c_float), ("min_nits", c_float),
        ("relative_to_max_display", c_int), ("linear_below", c_float), ("uses_original_profile", c_int),
        ("have_preview", c_int), ("have_animation", c_int), ("orientation", c_int), ("num_color_channels", c_uint32),
        ("num_extra_channels", c_uint32), ("alpha_bits", c_uint32), ("alpha_exponent_bits", c_uint32),
        ("alpha_premultiplied", c_int), ("preview", c_uint32 * 2), ("tps_numerator", c_uint32),
        ("tps_denominator", c_uint32), ("num_loops", c_uint32), ("have_timecodes", c_int),
        ("intrinsic", c_uint32 * 2), ("padding", c_uint8 * 100),
    ]  # fmt: skip


class PixelFormat(ctypes.Structure):
    _fields_ = [("num_channels", c_uint32), ("data_type", c_int), ("endianness", c_int), ("align", c_size_t)]


class FrameHeader(ctypes.Structure):
    _fields_ = [("duration", c_uint32), ("rest", c_uint32 * 63)]


def library() -> Any:
    for version in ("0.12", "0.11", "0.10", "0.9", "0.8", "0.7"):
        try:
            lib = ctypes.CDLL(f"libjxl.so.{version}")
        except OSError:
            continue
        lib.JxlEncoderCreate.restype = lib.JxlEncoderFrameSettingsCreate.restype = c_void_p
        lib.JxlEncoderFrameSettingsCreate.argtypes = [c_void_p, c_void_p]
        lib.JxlEncoderProcessOutput.argtypes = [c_void_p, POINTER(c_void_p), POINTER(c_size_t)]
        lib.JxlEncoderAddImageFrame.argtypes = [c_void_p, POINTER(PixelFormat), c_char_p, c_size_t]
        for name in ("SetFrameLossless", "UseContainer"):
            getattr(lib, f"JxlEncoder{name}").argtypes = [c_void_p, c_int]
        for name in ("SetBasicInfo", "SetColorEncoding", "SetFrameHeader"):
            getattr(lib, f"JxlEncoder{name}").argtypes = [c_void_p, c_void_p]
        lib.JxlEncoderSetICCProfile.argtypes = [c_void_p, c_char_p, c_size_t]
        lib.JxlEncoderCloseInput.argtypes = lib.JxlEncoderDestroy.argtypes = [c_void_p]
        return lib
    pytest.skip("this machine has no libjxl")


def encode(
    frames: Sequence[Any],
    bits: int = 8,
    orientation: int = 1,
    lossless: bool = True,
    container: bool = False,
    profile: bytes = b"",
    primaries: int = 1,
) -> bytes:
    """`frames` are (height, width, 1 to 4 channels) of uint8 or uint16; several are an animation. Without `profile` the
    colours are sRGB, or have other primaries (enum JxlPrimaries)."""
    lib = library()
    height, width, channels = frames[0].shape
    info, color = BasicInfo(), (c_uint8 * 512)()
    lib.JxlEncoderInitBasicInfo(byref(info))
    info.xsize, info.ysize, info.bits_per_sample, info.orientation = width, height, bits, orientation
    info.num_color_channels, info.num_extra_channels = (1 if channels < 3 else 3), 1 - channels % 2
    info.alpha_bits = bits * info.num_extra_channels
    info.uses_original_profile = lossless
    if len(frames) > 1:
        info.have_animation, info.tps_numerator, info.tps_denominator = 1, 10, 1
    encoder = lib.JxlEncoderCreate(None)
    assert not lib.JxlEncoderUseContainer(encoder, container)
    assert not lib.JxlEncoderSetBasicInfo(encoder, byref(info))
    lib.JxlColorEncodingSetToSRGB(byref(color), c_int(channels < 3))
    color[24] = primaries
    if profile:
        assert not lib.JxlEncoderSetICCProfile(encoder, profile, len(profile))
    else:
        assert not lib.JxlEncoderSetColorEncoding(encoder, byref(color))
    kind = PixelFormat(channels, 3 if frames[0].dtype == np.uint16 else 2, 0, 0)
    for pixels in frames:
        settings = lib.JxlEncoderFrameSettingsCreate(encoder, None)
        lib.JxlEncoderSetFrameLossless(settings, lossless)
        if len(frames) > 1:
            header = FrameHeader()
            lib.JxlEncoderInitFrameHeader(byref(header))
            header.duration = 1
            assert not lib.JxlEncoderSetFrameHeader(settings, byref(header))
        data = np.ascontiguousarray(pixels).tobytes()
        assert not lib.JxlEncoderAddImageFrame(settings, byref(kind), data, len(data))
    lib.JxlEncoderCloseInput(encoder)
    room = ctypes.create_string_buffer(1 << 20)
    place, left = c_void_p(ctypes.addressof(room)), c_size_t(len(room))
    assert not lib.JxlEncoderProcessOutput(encoder, byref(place), byref(left))
    lib.JxlEncoderDestroy(encoder)
    return room.raw[: len(room) - left.value]
