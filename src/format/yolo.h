/* Files of YOLO, and the names of their classes. */
#ifndef LEAT_FORMAT_YOLO_H
#define LEAT_FORMAT_YOLO_H

#include "format/annotated.h"

#define LEAT_YOLO_NAMES 65536

/* Whether a text begins as a line of labels does; none is one of a photo without objects. */
bool leat_yolo_begins(const char *head, size_t n);

/* Sets the classes by the files that stand in the folder of the annotations or above, if there are none yet; none is no
 * error. NOMEM, IO, CORRUPT (a classes.txt that is none), UNSUPPORTED (a data set of poses). */
int leat_yolo_names(struct leat_annotated *annotated, struct leat_error *error);
/* Names of classes, or of folders. */
struct leat_yolo_texts {
    char **at;
    size_t n, room;
};
/* Adds a copy without blanks around it. False: no memory. */
bool leat_yolo_texts_add(struct leat_yolo_texts *texts, const char *text);
bool leat_yolo_texts_are_same(const struct leat_yolo_texts *a, const struct leat_yolo_texts *b);
void leat_yolo_texts_clear(struct leat_yolo_texts *texts);
/* The content of a .yaml, in all of its documents: the list, map or block "names", whether it has another key of a
 * description of a data set ("nc", "path", "train", "val", "test"), and "kpt_shape", which poses have. */
struct leat_yolo_yaml {
    struct leat_yolo_texts names, places; /* none if it has no names; places: of train, val and test */
    bool is_data_set, is_pose;
    bool has_names;  /* there is a key "names", at its top or not */
    char *nc, *path; /* as they stand; NULL: it has none */
};
/* False: it is no YAML, or its names are no list of texts, no map of the numbers 0, 1, ... to texts and no block of
 * lines, or differ from one document to another; *out is empty. */
bool leat_yolo_yaml(const uint8_t *text, size_t length, struct leat_yolo_yaml *out);
void leat_yolo_yaml_clear(struct leat_yolo_yaml *yaml);
/* How well what a .yaml in a folder says names the photos below `root`: 0 not at all. yolo_places.c */
unsigned leat_yolo_places(const struct leat_yolo_yaml *yaml, const char *folder, const char *root);

#endif
