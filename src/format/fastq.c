/* FASTQ: records of a first line, "@name description", residues, a line that begins with '+', and as many qualities;
 * these may have several lines, too. sequences.h */
#include "format/sequences.h"

static bool recognise(const char *path, bool folder, const uint8_t *head, size_t n)
{
    return leat_sequences_recognise(LEAT_SEQUENCE_FASTQ, path, folder, head, n);
}

static int open_fastq(const char *path, const struct leat_open_options *options, struct leat_source **out,
                      struct leat_error *error)
{
    return leat_sequences_open(&leat_format_fastq, LEAT_SEQUENCE_FASTQ, path, options, out, error);
}

const struct leat_source_vtable leat_format_fastq = {
    .name = "fastq", .recognise = recognise, .open = open_fastq, LEAT_SEQUENCES_FUNCTIONS};
