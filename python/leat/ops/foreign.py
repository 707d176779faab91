"""The names here of operators of other libraries: torchvision (also v1), Albumentations, Ultralytics, FFCV, MMCV."""

from __future__ import annotations

from collections.abc import Sequence

from .. import _leat

_ERASING = "leat.ops.RandomErasing(p=0.5, scale=(0.02, 0.1))"
_BLUR = "leat.ops.GaussianBlur(5)"
_NOISE = "leat.ops.GaussianNoise(sigma=0.1)"
_COLORS = "leat.ops.ColorJitter(brightness=0.4, saturation=0.7, hue=0.015)"
_FLIP = "leat.ops.RandomHorizontalFlip(0.5), leat.ops.RandomVerticalFlip(0.5)"
_LIST = "a chain is a list of operators: [leat.ops.Decode(), leat.ops.Resize((224, 224))]"
_TENSOR = "batches are tensors already; leat.ops.ToDtype('float32', scale=True) brings pixels to 0 to 1"
_FLOATS = "leat.ops.ToDtype('float32', scale=True)"
_PAD = (
    "the nearest are leat.ops.RandomCrop((512, 512), pad_if_needed=True), which cuts larger images, and "
    "leat.ops.Letterbox((640, 640)), which resizes them"
)
_SAFE = (
    "the nearest is leat.ops.RandomRotation(30, interpolation='bilinear', expand=True), whose image grows: resize it "
    "behind"
)
_AFFINE = "leat.ops.RandomAffine(10, translate=(0.1, 0.1), scale=(0.8, 1.2), interpolation='bilinear')"
_ONE = "leat.ops.RandomChoice([leat.ops.GaussianBlur(5), leat.ops.RandomInvert(1.0)])"
_BOX_CROP = "leat.ops.RandomIoUCrop()"
_ZOOM = "leat.ops.ScaleJitter((640, 640), scale_range=(0.5, 1.5)) or leat.ops.RandomAffine(0, scale=(0.5, 1.5))"
_STORED = "the chain [] delivers a value as it is stored"
_FIELD = "fields have kinds: leat.boxes(), leat.keypoints(17), leat.mask(), leat.masks() when they are written"
_MAP = "leat.ops.Map(function) runs a function in Python, leat.ops.Native(library) a compiled one"
_POINTS = "keypoints that a crop leaves behind become (0, 0, 0)"
_TEXT = "leat takes the word, such as leat.ops.Resize(224, interpolation='bilinear')"

#: a name elsewhere -> the name here
_FOREIGN: dict[str, str] = {
    name: text
    for names, text in {
        "Compose Sequential ReplayCompose": f"{_LIST}. leat.ops.from_torchvision(compose) makes one of a Compose",
        "Identity NoOp": "leave it out of the chain, or give RandomChoice an empty list",
        "OneOf OneOrOther SomeOf": _ONE,
        "Lambda LinearTransformation": _MAP,
        "Transform BasicTransform DualTransform ImageOnlyTransform": _MAP,
        "ToTensor ToTensorV2 PILToTensor ToImage ToPureTensor ToTorchImage ToPILImage": _TENSOR,
        "ToFloat ConvertImageDtype Convert": _FLOATS,
        "FromFloat": "leat.ops.ToDtype('uint8', scale=True)",
        "ToDevice": "batch.to('cuda') of a batch that a loader has made",
        "ToRGB RGB": "leat.ops.Decode(mode='RGB')",
        "InterpolationMode": _TEXT,
        "AutoAugmentPolicy": "leat takes the word, such as leat.ops.AutoAugment('imagenet')",
        "BboxParams KeypointParams BboxProcessor": _FIELD,
        "ClampKeyPoints SanitizeKeyPoints": _POINTS,
        "SetClampingMode": "leat.ops.ClampBoundingBoxes(clamping_mode='soft')",
        "LoadImage LoadImageFromFile SimpleRGBImageDecoder RGBImageField": "leat.ops.Decode()",
        "RandomResizedCropRGBImageDecoder": "leat.ops.Decode(), leat.ops.RandomResizedCrop((224, 224))",
        "CenterCropRGBImageDecoder": "leat.ops.Decode(), leat.ops.Resize(256), leat.ops.CenterCrop((224, 224))",
        "IntDecoder FloatDecoder NDArrayDecoder BytesDecoder": _STORED,
        "NormalizeImage": "leat.ops.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])",
        "ImageMixup LabelMixup MixupToOneHot RandomMixup RandomMixUp": "leat.ops.MixUp(num_classes=1000)",
        "RandomCutmix RandomCutMix": "leat.ops.CutMix(num_classes=1000)",
        "HorizontalFlip Fliplr RandomFlipLR": "leat.ops.RandomHorizontalFlip(0.5)",
        "VerticalFlip Flipud RandomFlipUD": "leat.ops.RandomVerticalFlip(0.5)",
        "Flip RandomFlip": _FLIP,
        "D4 SquareSymmetry Transpose Rotate90": "leat.ops.RandomRotate90(), leat.ops.RandomHorizontalFlip(0.5)",
        "Rotate": "leat.ops.RandomRotation(30, interpolation='bilinear')",
        "SafeRotate": _SAFE,
        "Affine ShiftScaleRotate RandomTranslate": _AFFINE,
        "Perspective": "leat.ops.RandomPerspective(0.2)",
        "ElasticDeform GridDistortion OpticalDistortion ThinPlateSpline PiecewiseAffine": "leat.ops.ElasticTransform()",
        "LongestMaxSize": "leat.ops.Resize(None, max_size=640)",
        "SmallestMaxSize ShortestEdge Scale": "leat.ops.Resize(256)",
        "ResizeShortestEdge RandomChoiceResize": "leat.ops.RandomShortestSize([480, 512, 544], max_size=1333)",
        "RandomScale LargeScaleJitter": _ZOOM,
        "PadIfNeeded FixedSizeCrop": _PAD,
        "LetterBox LetterResize ClassifyLetterBox": "leat.ops.Letterbox((640, 640))",
        "RandomSizedCrop": "leat.ops.RandomResizedCrop((224, 224))",
        "Crop CropAndPad": "leat.ops.CenterCrop((224, 224)), or leat.ops.Pad((-1, 0, -2, 0)), which cuts off",
        "BBoxSafeRandomCrop RandomSizedBBoxSafeCrop AtLeastOneBBoxRandomCrop RandomCropNearBBox": _BOX_CROP,
        "MinIoURandomCrop RandomIouCrop": _BOX_CROP,
        "Expand ZoomOut": "leat.ops.RandomZoomOut()",
        "Format": "leat.ops.ConvertBoundingBoxFormat('cxcywh', normalized=True), leat.ops.ToDtype('float32')",
        "RandomHSV HueSaturationValue YOLOXHSVRandomAug": _COLORS,
        "RandomBrightnessContrast RandomBrightness RandomContrast": "leat.ops.ColorJitter(0.2, 0.2)",
        "PhotoMetricDistortion": "leat.ops.RandomPhotometricDistort()",
        "ToGray Gray": "leat.ops.RandomGrayscale(0.1) or leat.ops.Grayscale(3)",
        "InvertImg": "leat.ops.RandomInvert(0.5)",
        "Posterize": "leat.ops.RandomPosterize(4)",
        "Solarize": "leat.ops.RandomSolarize(128)",
        "Equalize": "leat.ops.RandomEqualize(0.5)",
        "AutoContrast": "leat.ops.RandomAutocontrast(0.5)",
        "Sharpen UnsharpMask": "leat.ops.RandomAdjustSharpness(2.0)",
        "ChannelShuffle": "leat.ops.RandomChannelPermutation()",
        "ImageCompression JpegCompression": "leat.ops.JPEG((50, 100))",
        "Cutout CoarseDropout Erasing RandomErase": _ERASING,
        "Blur MotionBlur MedianBlur AdvancedBlur GaussBlur": _BLUR,
        "GaussNoise AdditiveNoise": _NOISE,
    }.items()
    for name in names.split()
}


def hint(name: str, known: Sequence[str]) -> str:
    """The substitute for an operator that leat does not have."""
    if text := _FOREIGN.get(name):
        return f"{'use ' if text.startswith('leat.ops.') else ''}{text}."
    if near := _leat.nearest(name, list(known)):
        return f"did you mean leat.ops.{near}? leat.ops.Map(function) runs a Python function."
    return f"{_MAP}. There are {', '.join(known)}."
