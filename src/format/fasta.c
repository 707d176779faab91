/* FASTA: records of a first line, ">name description", and lines of residues. sequences.h */
#include "format/sequences.h"

static bool recognise(const char *path, bool folder, const uint8_t *head, size_t n)
{
    return leat_sequences_recognise(LEAT_SEQUENCE_FASTA, path, folder, head, n);
}

static int open_fasta(const char *path, const struct leat_open_options *options, struct leat_source **out,
                      struct leat_error *error)
{
    return leat_sequences_open(&leat_format_fasta, LEAT_SEQUENCE_FASTA, path, options, out, error);
}

const struct leat_source_vtable leat_format_fasta = {
    .name = "fasta", .recognise = recognise, .open = open_fasta, LEAT_SEQUENCES_FUNCTIONS};
