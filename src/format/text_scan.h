/*
 * Reading a file of lines to its end, once, on all cores: makes its index (text_index.h).
 *
 *     plain        chunks of the file; whoever takes a chunk reads the lines that begin in it
 *     compressed   one thread decodes, and hands on chunks that end with a line
 *     both         each chunk has its own tree and columns, which are joined in the order of the chunks: so the index
 *                  is the same for any number of threads and any size of chunks
 */
#ifndef LEAT_FORMAT_TEXT_SCAN_H
#define LEAT_FORMAT_TEXT_SCAN_H

#include "format/text_index.h"

/* How records begin and end. */
enum leat_text_mode {
    LEAT_TEXT_JSONL = 1, /* lines that are not empty, each an object */
    LEAT_TEXT_LINES,     /* lines of text that are not empty */
    LEAT_TEXT_BLANK,     /* runs of lines without an empty one between them */
    LEAT_TEXT_FILE       /* the whole file */
};

#define LEAT_TEXT_LONGEST (UINT64_C(256) << 20)

struct leat_text_scan {
    enum leat_text_mode mode;
    unsigned threads;     /* 0: one for each core */
    uint64_t chunk_bytes; /* 0: it chooses */
    uint64_t longest;     /* bytes of a line; longer ones are broken (LEAT_FAULT_LONG). 0: LEAT_TEXT_LONGEST */
    int (*progress)(void *user, uint64_t done, uint64_t total);
    void *user;
};

/* A file that is read from anywhere. Errors: IO, NOMEM, CANCELLED. */
int leat_text_scan_file(struct leat_io_file *file, const struct leat_text_scan *options, struct leat_text_index *out,
                        struct leat_error *error);
/* Decoded bytes as they come, in order: begin, push any number of times, then end, also after an error. An error that
 * push returns stops it. */
struct leat_text_stream;
int leat_text_stream_begin(const char *path, const struct leat_text_scan *options, struct leat_text_stream **out,
                           struct leat_error *error);
int leat_text_stream_push(struct leat_text_stream *stream, const uint8_t *bytes, size_t n, struct leat_error *error);
int leat_text_stream_end(struct leat_text_stream *stream, bool whole, struct leat_text_index *out,
                         struct leat_error *error);

#endif
