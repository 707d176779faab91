/*
 * Searches for a file that is not where it was looked for: a data set's folders are easily named one level too high or
 * too low. It is for the text of an error, so entries that cannot be looked at are passed over.
 */
#ifndef LEAT_FORMAT_NEARBY_H
#define LEAT_FORMAT_NEARBY_H

#include "format/listing.h"

/* The folder below `root` in which a listed file has this name, which may have folders in it; without its
 * extension, if that ends in a dot. */
bool leat_nearby_listed(const struct leat_listing *listing, const char *root, const char *name, char *out, size_t room);
/* Another folder that holds `name`: that above `folder`, those in it, those beside it, and those in these. */
bool leat_nearby_folder(const char *folder, const char *name, char *out, size_t room);
/* A path that may be meant by one that is not there: of the same name, nearby, there or around the folder `other`,
 * which may be NULL; else of nearly the same name in its folder, or the only one there with its extension. With
 * `photos` it is no folder that holds nothing but other files. */
bool leat_nearby_path(const char *path, const char *other, bool photos, char *out, size_t room);
/* The JSON file in a folder that may be meant for the photos in the folder `photos`. */
bool leat_nearby_json(const char *folder, const char *photos, char *out, size_t room);

/* Whether a photo, by its path, has annotations where the usual tools put them, and which: those of a folder of photos,
 * in which it is. */
bool leat_nearby_annotations(const char *photo, char *folder, char *annotations, size_t room);

#endif
