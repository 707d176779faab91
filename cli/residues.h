/*
 * Fields of residues (the letters of DNA, RNA and proteins, a byte each) and of their qualities: which fields are some,
 * and what their letters mean.
 */
#ifndef LEAT_CLI_RESIDUES_H
#define LEAT_CLI_RESIDUES_H

#include "leat/leat.h"

enum cli_letters { CLI_NO_LETTERS = 0, CLI_RESIDUES, CLI_QUALITIES };
enum cli_alphabet { CLI_NUCLEOTIDES, CLI_AMINO_ACIDS };

/* Residues are varying lists of uint8 whose values begin with letters, '*', '-' and '.' alone, as far as some of them
 * are looked at. Qualities are such a field of printable bytes with the name "quality", beside one of residues.
 * `counts` (may be NULL): how often each byte was seen. */
enum cli_letters cli_letters_of(const struct leat_dataset *dataset, size_t field, uint64_t counts[256]);
bool cli_is_residue(uint8_t byte);

/* Nucleotides if at least 85% of the letters are A, C, G, T, U or N, as Clustal W guesses (its help, "Sequence input").
 */
enum cli_alphabet cli_alphabet_of(const uint64_t counts[256]);

/* Residues of one class have one colour: Jalview's of nucleotides, and Zappo's classes of amino acids, which Jalview
 * has, too. Any other byte is CLI_OTHER_RESIDUES. */
struct cli_residue_class {
    const char *name, *letters; /* in capitals */
    uint32_t colour;            /* 0xrrggbb */
    unsigned terminal;          /* the nearest of the 256 colours of terminals */
};
enum { CLI_OTHER_RESIDUES = 7, CLI_RESIDUE_CLASSES };
const struct cli_residue_class *cli_residue_class(enum cli_alphabet alphabet, uint8_t byte);
/* Class `n` of an alphabet, 0 to CLI_RESIDUE_CLASSES - 1; one without letters is not used. */
const struct cli_residue_class *cli_residue_class_at(enum cli_alphabet alphabet, unsigned n);

#endif
