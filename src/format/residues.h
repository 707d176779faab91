/*
 * The residues of a FASTA file, or the qualities of FASTQ, as a file of their own: those of record 0, of record 1, ...
 * without line ends and first lines. So a sequence is an extent, and so is any window of one.
 */
#ifndef LEAT_FORMAT_RESIDUES_H
#define LEAT_FORMAT_RESIDUES_H

#include "format/sequence_index.h"

/* `index`, which stays the caller's, and outlives the file, as `path` does; `from` are the decoded bytes, to which it
 * keeps a reference. Reads wait for the bytes of `from` where that does. A read whose bytes are not folded as the index
 * says is LEAT_E_CHANGED, with record and byte: the file was changed, or the index is not its own. NOMEM. */
int leat_residues_open(const char *path, const struct leat_sequence_index *index, enum leat_sequence_text text,
                       struct leat_io_file *from, struct leat_io_file **out, struct leat_error *error);
/* Of such a file: residue n of the record is read next. Asks the processor for its line if the file is mapped, and
 * returns whether it is. */
bool leat_residues_expect(const struct leat_io_file *file, const struct leat_sequence_record *record, uint64_t n);

#endif
