/*
 * The index of a FASTA or FASTQ file: where each record lies, and how its lines are folded. It is made by one reading
 * of the file (sequence_scan.c) or from a .fai beside it (sequence_fai.c), and kept (kept.h). It depends on nothing but
 * the decoded bytes.
 *
 *     >name description          at, header, name, description
 *     ACGTACGT                   residues                         line residues, width bytes a line
 *     ACG
 *
 * Lines of one width, which nearly all files have, need no more than that. From where a record leaves its width,
 * points follow, one in some 4 KiB: the byte of a residue.
 */
#ifndef LEAT_FORMAT_SEQUENCE_INDEX_H
#define LEAT_FORMAT_SEQUENCE_INDEX_H

#include "format/compressed.h"
#include "format/kept.h"
#include "leat/leat.h"

enum leat_sequence_kind { LEAT_SEQUENCE_FASTA = 1, LEAT_SEQUENCE_FASTQ };

/* The texts of a record: its residues and, in FASTQ, as many qualities. Both may be folded into lines. */
enum leat_sequence_text { LEAT_RESIDUES = 0, LEAT_QUALITIES };

struct leat_sequence_record {
    uint64_t at;                /* its mark, '>' or '@', among the decoded bytes */
    uint64_t first;             /* residues of all records before */
    uint32_t header;            /* bytes of its first line, with the mark and without white space at its end */
    uint32_t name;              /* bytes of the name, which begins behind the mark */
    uint32_t description;       /* from the mark to the description; `header`: there is none */
    uint32_t begin[2];          /* from the mark to the first byte of each text */
    uint32_t line[2], width[2]; /* of each text, residues and bytes of each line but the last; 0: it has one line */
    uint32_t uneven;            /* 1 << enum leat_sequence_text: it has points */
};

/* From here on up to the next point, residues come with white space between them. */
struct leat_sequence_point {
    uint64_t residue; /* number among all of the file */
    uint64_t at;
};

#define LEAT_SEQUENCE_POINT 4096 /* bytes from one point to the next, at most */

struct leat_sequence_index {
    enum leat_sequence_kind kind;
    uint64_t count;
    uint64_t bytes;                             /* decoded */
    const struct leat_sequence_record *records; /* count + 1: the last tells where the file and its residues end */
    const struct leat_sequence_point *points[2];
    uint64_t n_points[2];
    uint64_t sums[2];                /* of the fingerprint */
    const struct leat_frame *frames; /* n_frames + 1, of a compressed file */
    uint64_t n_frames, copy_bytes;
    bool from_fai;
    struct leat_kept kept; /* that it was read from; or else what it owns: */
    struct leat_sequence_record *own_records;
    struct leat_sequence_point *own_points[2];
    struct leat_frame *own_frames;
};

void leat_sequence_index_destroy(struct leat_sequence_index *index);
/* Reads a kept index. False: there is none that is right. `trusts`: as leat_kept_load. */
bool leat_sequence_index_load(struct leat_sequence_index *index, enum leat_sequence_kind kind, const char *path,
                              struct leat_io_file *source, bool trusts);
bool leat_sequence_index_save(struct leat_sequence_index *index, const char *path, struct leat_io_file *source);
/* Copies the record `i` and the one behind it. Its numbers may be any that a file can hold. IO: the index cannot be
 * read. */
int leat_sequence_get(const struct leat_sequence_index *index, uint64_t i, struct leat_sequence_record out[2],
                      struct leat_error *error);

/* ---- making ---------------------------------------------------------------------------------- */

/* Takes the decoded bytes of a file in order: begin, push any number of times, end, also after an error (`whole`
 * false). Errors of the file are CORRUPT, with record, line and byte. */
struct leat_sequence_scan;
int leat_sequence_scan_begin(const char *path, enum leat_sequence_kind kind, struct leat_sequence_scan **out,
                             struct leat_error *error);
int leat_sequence_scan_push(struct leat_sequence_scan *scan, const uint8_t *bytes, size_t n, struct leat_error *error);
int leat_sequence_scan_end(struct leat_sequence_scan *scan, bool whole, struct leat_sequence_index *out,
                           struct leat_error *error);

/* The hash of a record for the fingerprint is over its name, its description, and of each text its length and samples:
 * all residues that are among the first LEAT_SAMPLE_RESIDUES of each LEAT_SAMPLE_STRIDE. So a genome is known again
 * without being read, and a protein by each of its residues. */
#define LEAT_SAMPLE_STRIDE (UINT64_C(1) << 20)
#define LEAT_SAMPLE_RESIDUES 1024
struct leat_sequence_sample {
    uint8_t *bytes[2];
    size_t n[2], room[2];
};
/* Takes the part of [number, number + n) of a text that belongs to its sample. Parts come in order. False: NOMEM. */
bool leat_sequence_sample_take(struct leat_sequence_sample *sample, enum leat_sequence_text text, uint64_t number,
                               const uint8_t *residues, size_t n);
/* Appends the record to the sums; the sample is empty again. False: NOMEM. `header`: the first line, with its mark. */
bool leat_sequence_sample_end(struct leat_sequence_sample *sample, enum leat_sequence_kind kind,
                              const struct leat_sequence_record *record, const uint8_t *header, uint64_t length,
                              uint64_t sums[2]);

/* The parts of a first line of `n` bytes, with its mark. 0: it is good; else the place of a byte that is wrong: NUL or
 * no UTF-8. */
size_t leat_sequence_header(struct leat_sequence_record *record, const uint8_t *line, size_t n);

/* Makes the index from FILE.fai if that is there and fits the bytes of `decoded`: each record begins where it says,
 * with its name, and lines end where it says, at each sample. False: it does not, or records have fewer than `least`
 * bytes on average: then reading the file is as quick. */
#define LEAT_FAI_LEAST (UINT64_C(64) << 10)
bool leat_sequence_from_fai(const char *path, struct leat_io_file *decoded, uint64_t least,
                            struct leat_sequence_index *out);

#endif
