/* The index of a file of sequences in memory, and as it is kept: sequence_index.h. */
#include "format/sequence_index.h"

#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "format/fingerprint.h"
#include "io/guard.h"

/* Kinds of 8 bytes, with the version. */
static const char kinds[][9] = {[LEAT_SEQUENCE_FASTA] = "FASTA  1", [LEAT_SEQUENCE_FASTQ] = "FASTQ  1"};

enum { RECORDS, POINTS, QUALITY_POINTS, FRAMES };        /* sections */
enum { COUNT, BYTES, SUM, SUM_2, COPY_BYTES, FROM_FAI }; /* facts */

void leat_sequence_index_destroy(struct leat_sequence_index *x)
{
    leat_kept_release(&x->kept);
    leat_free(x->own_records);
    leat_free(x->own_points[0]);
    leat_free(x->own_points[1]);
    leat_free(x->own_frames);
    *x = (struct leat_sequence_index){0};
}

static struct leat_kept shape(void)
{
    return (struct leat_kept){.sections = {[RECORDS] = {.each = sizeof(struct leat_sequence_record)},
                                           [POINTS] = {.each = sizeof(struct leat_sequence_point)},
                                           [QUALITY_POINTS] = {.each = sizeof(struct leat_sequence_point)},
                                           [FRAMES] = {.each = sizeof(struct leat_frame)}}};
}

bool leat_sequence_index_load(struct leat_sequence_index *x, enum leat_sequence_kind kind, const char *path,
                              struct leat_io_file *source, bool trusts)
{
    struct leat_kept k = shape();
    *x = (struct leat_sequence_index){.kind = kind};
    if (!leat_kept_load(&k, path, source, kinds[kind], trusts))
        return false;
    x->kept = k;
    x->count = k.facts[COUNT];
    x->bytes = k.facts[BYTES];
    x->sums[0] = k.facts[SUM];
    x->sums[1] = k.facts[SUM_2];
    x->copy_bytes = k.facts[COPY_BYTES];
    x->from_fai = k.facts[FROM_FAI];
    x->records = k.sections[RECORDS].data;
    for (unsigned t = 0; t < 2; t++) {
        x->points[t] = k.sections[POINTS + t].data;
        x->n_points[t] = k.sections[POINTS + t].count;
    }
    x->n_frames = k.sections[FRAMES].count;
    x->n_frames -= x->n_frames > 0;
    x->frames = x->n_frames ? k.sections[FRAMES].data : NULL;
    struct leat_frame *frames = x->n_frames ? x->own_frames = leat_new_array(x->n_frames + 1, sizeof *frames) : NULL;
    bool good = k.sections[RECORDS].count && x->count == k.sections[RECORDS].count - 1;
    if (good && x->n_frames)
        good = frames && !leat_guarded_copy(frames, x->frames, (x->n_frames + 1) * sizeof *frames, NULL);
    for (uint64_t i = 0; good && i < x->n_frames; i++)
        good = frames[i].in < frames[i + 1].in && frames[i].out <= frames[i + 1].out;
    good = good && (!x->n_frames || (!frames[0].out && frames[x->n_frames].out == x->bytes));
    x->frames = frames;
    if (!good)
        leat_sequence_index_destroy(x);
    return good;
}

bool leat_sequence_index_save(struct leat_sequence_index *x, const char *path, struct leat_io_file *source)
{
    struct leat_kept k = shape();
    k.facts[COUNT] = x->count;
    k.facts[BYTES] = x->bytes;
    k.facts[SUM] = x->sums[0];
    k.facts[SUM_2] = x->sums[1];
    k.facts[COPY_BYTES] = x->copy_bytes;
    k.facts[FROM_FAI] = x->from_fai;
    k.sections[RECORDS].data = x->records;
    k.sections[RECORDS].count = x->count + 1;
    for (unsigned t = 0; t < 2; t++) {
        k.sections[POINTS + t].data = x->points[t];
        k.sections[POINTS + t].count = x->n_points[t];
    }
    k.sections[FRAMES].data = x->frames;
    k.sections[FRAMES].count = x->n_frames ? x->n_frames + 1 : 0;
    const bool good = leat_kept_save(&k, path, source, kinds[x->kind]);
    x->kept.path = k.path;
    x->kept.inode = k.inode;
    return good;
}

int leat_sequence_get(const struct leat_sequence_index *x, uint64_t i, struct leat_sequence_record out[2],
                      struct leat_error *error)
{
    if (!x->kept.file) { /* it is memory */
        memcpy(out, &x->records[i], 2 * sizeof *out);
        return LEAT_OK;
    }
    return leat_guarded_copy(out, &x->records[i], 2 * sizeof *out, error);
}

/* ---- samples --------------------------------------------------------------------------------- */

bool leat_sequence_sample_take(struct leat_sequence_sample *s, enum leat_sequence_text text, uint64_t number,
                               const uint8_t *residues, size_t n)
{
    while (n) {
        const uint64_t in = number % LEAT_SAMPLE_STRIDE;
        const uint64_t left = in < LEAT_SAMPLE_RESIDUES ? LEAT_SAMPLE_RESIDUES - in : LEAT_SAMPLE_STRIDE - in;
        const size_t part = n < left ? n : (size_t)left;
        if (in < LEAT_SAMPLE_RESIDUES) {
            if (!leat_grow(&s->bytes[text], &s->room[text], s->n[text] + part, 1))
                return false;
            memcpy(s->bytes[text] + s->n[text], residues, part);
            s->n[text] += part;
        }
        number += part;
        residues += part;
        n -= part;
    }
    return true;
}

bool leat_sequence_sample_end(struct leat_sequence_sample *s, enum leat_sequence_kind kind,
                              const struct leat_sequence_record *r, const uint8_t *header, uint64_t length,
                              uint64_t sums[2])
{
    uint64_t sample[2] = {0, 0};
    leat_fingerprint_value(sample, leat_hash64(header + 1, r->name));
    leat_fingerprint_value(sample, leat_hash64(header + r->description, r->header - r->description));
    for (unsigned t = 0; t < (kind == LEAT_SEQUENCE_FASTQ ? 2 : 1); t++) {
        if (!leat_grow(&s->bytes[t], &s->room[t], s->n[t] + sizeof length, 1))
            return false;
        leat_put_u64(s->bytes[t] + s->n[t], length);
        leat_fingerprint_value(sample, leat_hash64(s->bytes[t], s->n[t] + sizeof length));
        s->n[t] = 0;
    }
    leat_fingerprint_append(sums, sample);
    return true;
}
