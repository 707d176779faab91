/* The struct that the kernel convert_pixels.cu.h shares with its host (device/convert.c). */
#ifndef LEAT_DEVICE_KERNELS_CONVERT_PIXELS_H
#define LEAT_DEVICE_KERNELS_CONVERT_PIXELS_H

struct leat_convert_args {
    const unsigned char *in;    /* n images of `pixels` pixels, the channels of one side by side */
    const unsigned char *table; /* 256 values for each channel */
    unsigned char *out;
    unsigned long long n, pixels; /* `pixels` is a multiple of those that a thread takes */
};

#endif
