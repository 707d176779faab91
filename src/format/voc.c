/*
 * Pascal VOC: an XML file per photo, of its name:
 *
 *     <annotation> <size> <width>500</width> <height>375</height> ... </size>
 *       <object> <name>dog</name> <truncated>0</truncated> <difficult>0</difficult>
 *         <bndbox> <xmin>48</xmin> <ymin>240</ymin> <xmax>195</xmax> <ymax>371</ymax> </bndbox>
 *         <part> <name>head</name> <bndbox> ... </bndbox> </part> </object> </annotation>
 *
 * Classes are the names of objects in bytewise order. Boxes are the numbers as they stand, as torchvision takes them.
 * Expat reads the XML. A document that declares entities is refused: a few lines of them can mean gigabytes.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <expat.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/number.h"
#include "base/search.h"
#include "format/photo_sizes.h"
#include "format/sidecars.h"

enum { TEXT = 256, WRONG = 64, MOST_CLASSES = 1 << 16, MOST_OBJECTS = 1 << 16, UNKNOWN = -1 };

struct class
{
    char *name;
    uint32_t number; /* in the order in which they were met; then `order[number]` is that by name */
};

struct object {
    char name[TEXT];
    bool long_name;
    float box[4];
    unsigned has; /* bits of box */
    uint8_t difficult, truncated;
    char wrong_box[WRONG], wrong_flag[2][WRONG]; /* the text that is no value of it, and where; "": none */
    uint64_t line;
};

struct voc {
    struct leat_sidecars files;
    struct leat_column *boxes, *labels, *difficult, *truncated;
    struct class *classes; /* by name */
    size_t n_classes, classes_room;
    struct object *objects; /* of the photo that is being read */
    size_t n_objects, objects_room;
    uint64_t n;
    struct leat_error *error;
    /* of the document */
    XML_Parser parser;
    char path[8][32]; /* names of the elements that are open, cut */
    unsigned depth;
    char text[TEXT];
    size_t text_bytes;
    bool given; /* the classes: their names are those, and no others */
    bool long_text, no_memory;
    bool odd_size;                 /* with something else than numbers */
    const char *wrong;             /* with the document; NULL: nothing */
    double w, h;                   /* infinite where it does not say them; */
    struct leat_photo_size photo;  /* then those of the photo */
    uint64_t size_line, elsewhere; /* lines of it, and of the first <object> in another element; 0: there is none */
    struct leat_said_size *said;   /* of each photo */
};

static bool begins(const char *head, size_t n)
{
    return memmem(head, n, "<annotation", 11);
}

/* A file that is no annotation may lie beside those of another format. */
static bool voc_annotates(const char *path, bool folder, const uint8_t *head, size_t n)
{
    const enum leat_sidecars_found found = folder ? leat_sidecars_in(path, ".xml", begins) : LEAT_SIDECARS_NONE;
    return found == LEAT_SIDECARS_SURE ||
           (found && !leat_sidecars_in(path, ".txt", NULL) && !leat_sidecars_in(path, ".png", NULL));
}

static int no_memory(const struct voc *v)
{
    return leat_fail(v->error, LEAT_E_NOMEM, "no memory to read %s", v->files.a->path);
}

/* ---- a document ------------------------------------------------------------------------------ */

static bool at(const struct voc *v, unsigned level, const char *name)
{
    return v->depth > level && !strcmp(v->path[level], name);
}

static void stop(struct voc *v, const char *wrong)
{
    v->wrong = wrong;
    XML_StopParser(v->parser, XML_FALSE);
}

static void XMLCALL on_start(void *user, const XML_Char *name, const XML_Char **attributes)
{
    struct voc *v = user;
    if (v->depth < 8) {
        strncpy(v->path[v->depth], name, sizeof v->path[0] - 1);
        v->path[v->depth][sizeof v->path[0] - 1] = 0;
    }
    v->depth++;
    v->text_bytes = 0;
    v->long_text = false;
    if (v->depth == 1 && !at(v, 0, "annotation"))
        stop(v, "has another root than <annotation>");
    if (!strcasecmp(name, "object") && !(v->depth == 2 && at(v, 1, "object")) && !v->elsewhere)
        v->elsewhere = XML_GetCurrentLineNumber(v->parser);
    if (v->depth == 2 && at(v, 1, "object") && v->n_objects == MOST_OBJECTS) {
        stop(v, "has more than 65536 objects");
        return;
    }
    if (v->depth == 2 && at(v, 1, "object")) {
        if (!leat_grow(&v->objects, &v->objects_room, v->n_objects + 1, sizeof *v->objects)) {
            v->no_memory = true;
            XML_StopParser(v->parser, XML_FALSE);
            return;
        }
        v->objects[v->n_objects++] = (struct object){.line = XML_GetCurrentLineNumber(v->parser)};
    }
}

static void XMLCALL on_text(void *user, const XML_Char *text, int n)
{
    struct voc *v = user;
    v->long_text |= v->text_bytes + (size_t)n >= TEXT;
    if (!v->long_text) {
        memcpy(v->text + v->text_bytes, text, (size_t)n);
        v->text_bytes += (size_t)n;
    }
}

/* The text without white space at its ends. */
static const char *trimmed(struct voc *v)
{
    const char *white = " \t\r\n";
    v->text[v->long_text ? 0 : v->text_bytes] = 0;
    while (v->text_bytes && !v->long_text && strchr(white, v->text[v->text_bytes - 1]))
        v->text[--v->text_bytes] = 0;
    return v->text + strspn(v->text, white);
}

/* False: the text is no number. One that is not finite is NaN. */
static bool read_number(const char *text, double *out)
{
    struct leat_number number;
    const char *word = text + (*text == '-' || *text == '+');
    const size_t n = strlen(text);
    *out = (double)NAN;
    if (!strcasecmp(word, "nan") || !strcasecmp(word, "inf") || !strcasecmp(word, "infinity"))
        return true;
    if (!n || leat_number_read(text, n, LEAT_NUMBER_TEXT, &number) != n)
        return false;
    if (isfinite(number.value))
        *out = number.value;
    return true;
}

/* Says that an element has another text than it can have. */
static void say_wrong(const struct voc *v, char to[WRONG], const char *element, const char *text)
{
    enum { SHOWN = 32 };
    size_t n = strlen(text);
    const bool cut = n > SHOWN;
    for (n = cut ? SHOWN : n; cut && (text[n] & 0xc0) == 0x80; n--) /* no part of a character */
        ;
    if (v->long_text)
        snprintf(to, WRONG, "%s has %d bytes or more", element, TEXT);
    else if (n)
        snprintf(to, WRONG, "%s is \"%.*s%s\"", element, (int)n, text, cut ? "..." : "");
    else
        snprintf(to, WRONG, "%s is empty", element);
}

static void take_side(struct voc *v, struct object *o, unsigned side, const char *name, const char *text)
{
    double number;
    if (o->has & 1u << side)
        snprintf(o->wrong_box, WRONG, "%s stands twice", name);
    else if (read_number(text, &number))
        o->box[side] = (float)number;
    else
        say_wrong(v, o->wrong_box, name, text);
    o->has |= 1u << side;
}

/* 0 or 1, also as Python and XML write them. */
static uint8_t take_flag(const struct voc *v, char wrong[WRONG], const char *name, const char *text)
{
    double number = 2;
    if (!strcasecmp(text, "true") || !strcasecmp(text, "false"))
        number = !strcasecmp(text, "true");
    else if (!read_number(text, &number))
        number = 2;
    if (number != 0 && number != 1)
        say_wrong(v, wrong, name, text);
    return number == 1;
}

static void XMLCALL on_end(void *user, const XML_Char *name)
{
    static const char *const sides[] = {"xmin", "ymin", "xmax", "ymax"};
    struct voc *v = user;
    const char *text = trimmed(v);
    struct object *o = v->n_objects ? &v->objects[v->n_objects - 1] : NULL;
    if (v->depth == 3 && at(v, 1, "size") && at(v, 2, "width")) {
        v->odd_size |= !read_number(text, &v->w);
        v->size_line = XML_GetCurrentLineNumber(v->parser);
    }
    if (v->depth == 3 && at(v, 1, "size") && at(v, 2, "height"))
        v->odd_size |= !read_number(text, &v->h);
    if (v->depth == 3 && at(v, 1, "object") && at(v, 2, "name")) {
        o->long_name = v->long_text;
        strcpy(o->name, text);
    }
    if (v->depth == 3 && at(v, 1, "object") && at(v, 2, "difficult"))
        o->difficult = take_flag(v, o->wrong_flag[0], "difficult", text);
    if (v->depth == 3 && at(v, 1, "object") && at(v, 2, "truncated"))
        o->truncated = take_flag(v, o->wrong_flag[1], "truncated", text);
    for (unsigned i = 0; v->depth == 4 && at(v, 1, "object") && at(v, 2, "bndbox") && i < 4; i++)
        if (at(v, 3, sides[i]))
            take_side(v, o, i, sides[i], text);
    v->depth--;
    v->text_bytes = 0;
    v->long_text = false;
}

static void XMLCALL on_entity(void *user, const XML_Char *name, int is_parameter, const XML_Char *value, int length,
                              const XML_Char *base, const XML_Char *system, const XML_Char *public,
                              const XML_Char *notation)
{
    stop(user, "declares entities, which are not read");
}

/* One that is declared elsewhere, if at all: without it the text would be another one. */
static void XMLCALL on_skipped_entity(void *user, const XML_Char *name, int is_parameter)
{
    stop(user, "has an entity that it does not declare");
}

/* LEAT_OK: what is wrong with it is *wrong, in line *line; NULL: nothing. */
static int read_document(struct voc *v, size_t n, const char **wrong, uint64_t *line)
{
    v->n_objects = v->depth = 0;
    v->text_bytes = 0;
    v->no_memory = v->long_text = v->odd_size = false;
    v->photo = (struct leat_photo_size){0};
    v->size_line = v->elsewhere = 0;
    v->wrong = NULL;
    v->w = v->h = (double)INFINITY;
    *wrong = NULL;
    if (!(v->parser = XML_ParserCreate(NULL)))
        return no_memory(v);
    XML_SetUserData(v->parser, v);
    XML_SetElementHandler(v->parser, on_start, on_end);
    XML_SetCharacterDataHandler(v->parser, on_text);
    XML_SetEntityDeclHandler(v->parser, on_entity);
    XML_SetSkippedEntityHandler(v->parser, on_skipped_entity);
    if (XML_Parse(v->parser, (const char *)v->files.text, (int)n, 1) != XML_STATUS_OK) {
        *wrong = v->wrong ? v->wrong : XML_ErrorString(XML_GetErrorCode(v->parser));
        *line = XML_GetCurrentLineNumber(v->parser);
    } else if (!v->n_objects && v->elsewhere) {
        *wrong = "has an object, but no <object> directly in <annotation>";
        *line = v->elsewhere;
    }
    XML_ParserFree(v->parser);
    return v->no_memory ? no_memory(v) : LEAT_OK;
}

/* ---- objects --------------------------------------------------------------------------------- */

/* The number of a class, which is new if there is none of that name; else UNKNOWN where the classes are given. */
static int class_of(struct voc *v, const char *name, int64_t *label)
{
    const size_t low = LEAT_BISECT(i, 0, v->n_classes, strcmp(v->classes[i].name, name) < 0);
    const bool known = low < v->n_classes && !strcmp(v->classes[low].name, name);
    char *copy;
    *label = known ? (int64_t)v->classes[low].number : UNKNOWN;
    if (known || v->given)
        return LEAT_OK;
    if (v->n_classes == MOST_CLASSES)
        return leat_fail(v->error, LEAT_E_CORRUPT,
                         "%s: the objects have more than %d names: these are no classes, or name them with classes",
                         v->files.path, MOST_CLASSES);
    if (!leat_grow(&v->classes, &v->classes_room, v->n_classes + 1, sizeof *v->classes) || !(copy = leat_strdup(name)))
        return no_memory(v);
    memmove(v->classes + low + 1, v->classes + low, (v->n_classes - low) * sizeof *v->classes);
    v->classes[low] = (struct class){copy, (uint32_t)v->n_classes};
    *label = (int64_t)v->n_classes++;
    return LEAT_OK;
}

/* Cuts the box off at the photo, and counts it. *wrong: what is wrong with it; NULL: nothing. */
static int settle_box(struct voc *v, uint64_t photo, struct object *o, const char **wrong)
{
    struct leat_annotated *a = v->files.a;
    const float given[4] = {o->box[0], o->box[1], o->box[2], o->box[3]};
    double w = v->w, h = v->h;
    const int rc = leat_photo_sizes_find(a, photo, o->box, &v->photo, &w, &h, v->error);
    if (rc)
        return rc;
    *wrong = leat_box_fault(o->box, w, h);
    const bool inside = leat_annotated_box(a, given, w, h);
    v->said[photo].exceeded |= !inside;
    if (!inside && !*wrong)
        leat_annotated_stray(a, "%s line %" PRIu64 " has the box %g, %g, %g, %g", v->files.path, o->line,
                             (double)given[0], (double)given[1], (double)given[2], (double)given[3]);
    if (!*wrong && !(isfinite(w) && isfinite(h)))
        leat_annotated_tell(a, LEAT_TOLD_UNSIZED, "%s line %" PRIu64, v->files.path, o->line);
    return LEAT_OK;
}

/* Says of values that are there and are none that the object has 0 in their place. */
static int check_flags(struct voc *v, uint64_t photo, const struct object *o)
{
    int rc = LEAT_OK;
    for (int i = 0; i < 2 && !rc; i++)
        if (*o->wrong_flag[i]) {
            rc = leat_fault(v->files.a, v->error, LEAT_E_CORRUPT, "values of objects that are neither 0 nor 1",
                            "%s line %" PRIu64 ": of the object, %s", v->files.path, o->line, o->wrong_flag[i]);
            rc = rc ? rc : leat_annotated_mark(v->files.a, photo, v->error);
        }
    return rc;
}

/* The fault in the texts of an object; NULL: none. */
static const char *object_fault(const struct object *o, char *text, size_t room)
{
    if (o->long_name)
        return "has a name of 256 bytes or more";
    if (!*o->name)
        return "has no name";
    if (o->has != 15)
        return "has no box of four numbers";
    if (!*o->wrong_box)
        return NULL;
    snprintf(text, room, "has a box with something else than numbers: %s", o->wrong_box);
    return text;
}

/* An object whose class is none of those that are given. */
static int say_unknown(struct voc *v, const struct object *o)
{
    struct leat_annotated *a = v->files.a;
    char forms[1200] = "";
    for (size_t i = 0; i < a->n_classes && !*forms; i++)
        if (leat_name_is_form_of(o->name, a->classes[i]))
            leat_names_say_forms(o->name, a->classes[i], false, forms, sizeof forms);
    return leat_fault(a, v->error, LEAT_E_CORRUPT, "objects of a class that is not among those given",
                      "%s line %" PRIu64 ": the object is of the class %s%s", v->files.path, o->line, o->name, forms);
}

static int add_object(struct voc *v, uint64_t photo, struct object *o)
{
    struct leat_annotated *a = v->files.a;
    char text[128];
    const char *wrong = object_fault(o, text, sizeof text), *box = NULL;
    int64_t label = 0;
    a->tried++;
    int rc = wrong ? LEAT_OK : settle_box(v, photo, o, &box);
    if (!rc && !wrong && !box)
        rc = class_of(v, o->name, &label);
    if (rc)
        return rc;
    if (label == UNKNOWN)
        rc = say_unknown(v, o);
    else if (wrong || box)
        rc = leat_fault(a, v->error, LEAT_E_CORRUPT, "objects that cannot be", "%s line %" PRIu64 ": the object %s%s",
                        v->files.path, o->line, box ? "has a box that " : "", box ? box : wrong);
    if (wrong || box || label == UNKNOWN)
        return rc ? rc : leat_annotated_mark(a, photo, v->error);
    if ((rc = check_flags(v, photo, o)))
        return rc;
    if (!leat_column_push(v->boxes, o->box) || !leat_column_push(v->labels, &label) ||
        !leat_column_push(v->difficult, &o->difficult) || !leat_column_push(v->truncated, &o->truncated))
        return no_memory(v);
    v->n++;
    return LEAT_OK;
}

static int read_photo(struct voc *v, uint64_t photo)
{
    struct leat_annotated *a = v->files.a;
    bool there;
    size_t n;
    const char *wrong;
    uint64_t line = 0;
    int rc = leat_sidecars_read(&v->files, photo, &there, &n, v->error);
    if (rc || !there) {
        a->first[photo + 1] = v->n;
        return rc;
    }
    rc = read_document(v, n, &wrong, &line);
    const double w = isinf(v->w) ? 1 : v->w, h = isinf(v->h) ? 1 : v->h; /* one that is not said is that of the photo */
    if (!rc && !wrong && !(w >= 1 && h >= 1 && w * h < 0x1p31 && w == floor(w) && h == floor(h))) {
        wrong = v->odd_size ? "has a size with something else than numbers"
                            : "has a size that cannot be: width and height are whole numbers from 1, and their product "
                              "is below 2^31";
        line = v->size_line ? v->size_line : 1;
    }
    if (!rc && wrong) {
        rc = leat_fault(a, v->error, LEAT_E_CORRUPT, "files that are no annotation", "%s line %" PRIu64 ": it %s%s",
                        v->files.path, line, v->wrong || !strncmp(wrong, "has ", 4) ? "" : "is no XML: ", wrong);
        rc = rc ? rc : leat_annotated_mark(a, photo, v->error);
        v->n_objects = 0;
        a->tried++;
    } else if (!rc && (isfinite(v->w) || isfinite(v->h))) {
        v->said[photo] = (struct leat_said_size){.width = isinf(v->w) ? 0 : (uint32_t)v->w,
                                                 .height = isinf(v->h) ? 0 : (uint32_t)v->h,
                                                 .line = (uint32_t)v->size_line};
    }
    for (size_t i = 0; i < v->n_objects && !rc; i++)
        rc = add_object(v, photo, &v->objects[i]);
    a->first[photo + 1] = v->n;
    return rc;
}

/* The classes that are given, to be found by their names. */
static int compare_classes(const void *a, const void *b)
{
    return strcmp(((const struct class *)a)->name, ((const struct class *)b)->name);
}

static int take_classes(struct voc *v, const struct leat_open_options *options)
{
    struct leat_annotated *a = v->files.a;
    int rc = leat_annotated_classes(a, options, v->error);
    v->given = a->n_classes > 0;
    if (rc || !v->given)
        return rc;
    if (!leat_grow(&v->classes, &v->classes_room, a->n_classes, sizeof *v->classes))
        return no_memory(v);
    for (; v->n_classes < a->n_classes; v->n_classes++)
        if (!(v->classes[v->n_classes] = (struct class){leat_strdup(a->classes[v->n_classes]), (uint32_t)v->n_classes})
                 .name)
            return no_memory(v);
    qsort(v->classes, v->n_classes, sizeof *v->classes, compare_classes);
    return LEAT_OK;
}

/* Numbers classes by their names, unless they are given. */
static int sort_classes(struct voc *v)
{
    struct leat_annotated *a = v->files.a;
    int64_t *labels = (int64_t *)(void *)v->labels->data;
    if (v->given)
        return LEAT_OK;
    uint32_t *rank = leat_new_array(v->n_classes, sizeof *rank);
    if (!rank || !(a->classes = leat_new_array(v->n_classes, sizeof *a->classes))) {
        leat_free(rank);
        return no_memory(v);
    }
    for (size_t i = 0; i < v->n_classes; i++) {
        rank[v->classes[i].number] = (uint32_t)i;
        a->classes[a->n_classes++] = v->classes[i].name;
        v->classes[i].name = NULL;
    }
    for (uint64_t i = 0; i < v->n; i++)
        labels[i] = rank[labels[i]];
    leat_free(rank);
    return LEAT_OK;
}

static void where_is(const struct leat_annotated *a, uint64_t photo, const struct leat_said_size *said, char *out,
                     size_t room)
{
    size_t number;
    const bool found = leat_sidecars_find(a, photo, ".xml", &number) == LEAT_NAMES_FOUND;
    snprintf(out, room, "%s line %" PRIu32, found ? leat_names_at(&a->sidecars, number) : "its file", said->line);
}

static int voc_open(const char *path, const struct leat_open_options *options, struct leat_source **out,
                    struct leat_error *error)
{
    struct leat_error unused;
    struct voc v = {.error = error ? error : &unused};
    int rc = leat_sidecars_begin(&v.files, &leat_format_voc, path, ".xml", options, v.error);
    struct leat_annotated *a = v.files.a;
    rc = rc ? rc : take_classes(&v, options);
    if (!rc) {
        a->given.role = LEAT_ROLE_BOXES_XYXY;
        v.boxes = leat_annotated_column(a, "boxes", LEAT_F32, LEAT_ROLE_BOXES_XYXY, true, 4);
        v.labels = leat_annotated_column(a, "label", LEAT_I64, LEAT_ROLE_NONE, true, 0);
        v.difficult = leat_annotated_column(a, "difficult", LEAT_U8, LEAT_ROLE_NONE, true, 0);
        v.truncated = leat_annotated_column(a, "truncated", LEAT_U8, LEAT_ROLE_NONE, true, 0);
        v.said = leat_new_array(a->photos.listing.n_files, sizeof *v.said);
        if (!v.said || !leat_column_fill(v.boxes, 0) || !leat_column_fill(v.labels, 0) ||
            !leat_column_fill(v.difficult, 0) || !leat_column_fill(v.truncated, 0))
            rc = no_memory(&v);
    }
    for (uint64_t i = 0; !rc && i < a->photos.listing.n_files; i++)
        rc = read_photo(&v, i);
    rc = rc ? rc : leat_sidecars_check(&v.files, v.error);
    rc = rc ? rc : sort_classes(&v);
    rc = rc ? rc : leat_photo_sizes_check(a, v.said, where_is, v.error);
    leat_free(v.said);
    leat_sidecars_end(&v.files);
    for (size_t i = 0; i < v.n_classes; i++)
        leat_free(v.classes[i].name);
    leat_free(v.classes);
    leat_free(v.objects);
    return leat_annotated_finish(a, rc, options, out, v.error);
}

const struct leat_source_vtable leat_format_voc = {
    .name = "voc", .annotates = voc_annotates, .takes_classes = true, .open = voc_open};
