/* Functions that are the same for C and for the kernels of a card: plain arithmetic, without headers. */
#ifndef LEAT_BASE_BOTH_H
#define LEAT_BASE_BOTH_H

#ifdef __CUDACC__
#define LEAT_BOTH static __device__ __forceinline__
#else
#define LEAT_BOTH static inline
#endif

#endif
