/* The structs that the kernel gather_rows.cu.h shares with its host (device/rows.c). */
#ifndef LEAT_DEVICE_KERNELS_GATHER_ROWS_H
#define LEAT_DEVICE_KERNELS_GATHER_ROWS_H

/* Memory of the host that the card writes to: the first id that it met and that names no row. */
struct leat_gather_fault {
    unsigned int claimed; /* one thread writes the others, once */
    unsigned int ready;   /* they are written */
    long long id;
    unsigned long long at; /* its place among the ids of its call */
};

struct leat_gather_args {
    const unsigned char *table;
    const unsigned char *ids; /* int64 or int32; NULL: 0, 1, 2 ... */
    unsigned char *out;       /* at a multiple of 16 */
    struct leat_gather_fault *fault;
    unsigned long long count; /* rows of the table */
    unsigned long long n;     /* ids */
    unsigned int words;       /* of a row of the table */
    unsigned int period;      /* words, rounded up to a multiple of the lanes */
    unsigned int lanes_log2;  /* threads that work on a row together */
    unsigned int wide;        /* ids are int64 */
    unsigned int as;          /* enum leat_dtype of values that are converted: float32, float16 or bfloat16 */
    unsigned int shifted;     /* lanes begin at a line of 128 bytes; they are as many as it has words, or more */
};

#endif
