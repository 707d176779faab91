/*
 * Each glyph is a few strokes, written as pairs of digits x, y (base 36) on a grid:
 *
 *     y  0  the top of capitals             -  straight from point to point
 *        4  the top of small letters        ~  a curve from the first to the last point (a quadratic B-spline: it
 *        c  the line                           touches the lines between its other points in their middles)
 *        g  the bottom of g and p           o  a closed curve of that kind
 *                                           .  a dot
 * Behind the width stands each stroke with its sign in front. A pixel is covered by how near it is to a stroke, which
 * makes letters smooth without a font file or a library.
 */
#include "font.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char *const glyphs[] = {
    "4",                                  /* space */
    "2-1018.1b",                          /* ! */
    "5-1013-4043",                        /* " */
    "9-402c-806c-1494-0888",              /* # */
    "8~83710106868b1b09-404e",            /* $ */
    "a-901co00404505o67a7ac6c",           /* % */
    "9~9c24206065070c6c97",               /* & */
    "2-1013",                             /* ' */
    "4~40040a4e",                         /* ( */
    "4~00444a0e",                         /* ) */
    "6-3137-0256-5206",                   /* * */
    "8-434b-0787",                        /* + */
    "2-1b0e",                             /* , */
    "5-0757",                             /* - */
    "2.1b",                               /* . */
    "6-600d",                             /* / */
    "7o00707c0c",                         /* 0 */
    "7-13404c-1c7c",                      /* 1 */
    "7~030070750c-0c7c",                  /* 2 */
    "7~0200707636~36767c0c0a",            /* 3 */
    "7-5c500878",                         /* 4 */
    "7-600005~05747c0c0a",                /* 5 */
    "7o05757c0c~60200408",                /* 6 */
    "7-00702c",                           /* 7 */
    "7o00707606o06767c0c",                /* 8 */
    "7o00707707~1c5c7874",                /* 9 */
    "2.15.1b",                            /* : */
    "2.15-1b0e",                          /* ; */
    "7-72077c",                           /* < */
    "7-0575-0979",                        /* = */
    "7-02770c",                           /* > */
    "7~0200707538.3b",                    /* ? */
    "co44848949~848acac0000e9e",          /* @ */
    "8-0c408c-1878",                      /* A */
    "8-000c~00707606~06868c0c",           /* B */
    "8~8270000c7c8a",                     /* C */
    "8-000c~00808c0c",                    /* D */
    "7-70000c7c-0656",                    /* E */
    "7-70000c-0656",                      /* F */
    "8~8270000c8c87-4787",                /* G */
    "8-000c-808c-0686",                   /* H */
    "2-101c",                             /* I */
    "6-6068~686c0c09",                    /* J */
    "7-000c-7007-347c",                   /* K */
    "6-000c6c",                           /* L */
    "a-0c0057a0ac",                       /* M */
    "8-0c008c80",                         /* N */
    "9o00909c0c",                         /* O */
    "8-000c~00808707",                    /* P */
    "9o00909c0c-599d",                    /* Q */
    "8-000c~00808606-468c",               /* R */
    "8~82700006868c1c0a",                 /* S */
    "8-0080-404c",                        /* T */
    "8-0008~080c8c88-8880",               /* U */
    "8-004c80",                           /* V */
    "c-003c619cc0",                       /* W */
    "8-008c-800c",                        /* X */
    "8-004680-464c",                      /* Y */
    "8-00800c8c",                         /* Z */
    "4-40000e4e",                         /* [ */
    "6-006d",                             /* backslash */
    "4-00404e0e",                         /* ] */
    "8-044084",                           /* ^ */
    "8-0e8e",                             /* _ */
    "3-0023",                             /* ` */
    "7~06047477-777c~77070c6c7a",         /* a */
    "7-000co04747c0c",                    /* b */
    "6~6664040c6c6a",                     /* c */
    "7-707co04747c0c",                    /* d */
    "7-0878~7874040c7c7a",                /* e */
    "5~502024-242c-0454",                 /* f */
    "7o04747c0c-747c~7c7g0g0e",           /* g */
    "7-000c~08047478-787c",               /* h */
    "2-141c.11",                          /* i */
    "3-343c~3c3g0g.31",                   /* j */
    "6-000c-6409-276c",                   /* k */
    "2-101c",                             /* l */
    "a-040c~08045458-585c~5854a4a8-a8ac", /* m */
    "7-040c~08047478-787c",               /* n */
    "7o04747c0c",                         /* o */
    "7-040go04747c0c",                    /* p */
    "7-747go04747c0c",                    /* q */
    "5-040c~080454",                      /* r */
    "6~66540408686c1c0a",                 /* s */
    "5-2029~292c5c-0454",                 /* t */
    "7-0408~080c7c78-747c",               /* u */
    "8-044c84",                           /* v */
    "c-043c659cc4",                       /* w */
    "7-047c-740c",                        /* x */
    "8-044c-842g",                        /* y */
    "6-04640c6c",                         /* z */
    "5~50202707~07272e5e",                /* { */
    "2-101e",                             /* | */
    "5~00303757~57373e0e",                /* } */
    "8~07246a87",                         /* ~ */
};

#define UNITS 12.0 /* of the grid in the height of a capital */
#define GAP 3      /* of the grid, between two characters */
#define SEGMENTS 160

static const char missing[] = "7-00707c0c00";

/* The glyph of the first character of a text, and how many bytes that character has. */
static const char *glyph_of(const char *text, size_t *bytes)
{
    const unsigned char c = (unsigned char)text[0];
    size_t n = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
    for (size_t i = 1; i < n; i++)
        if (((unsigned char)text[i] & 0xc0) != 0x80)
            n = 1;
    *bytes = n;
    return c >= 32 && c < 127 ? glyphs[c - 32] : missing;
}

static double digit(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

static double advance(const char *glyph)
{
    return digit(glyph[0]) + GAP;
}

double cli_text_width(const char *text, double size)
{
    double units = 0;
    for (size_t n; *text; text += n)
        units += advance(glyph_of(text, &n));
    return units > 0 ? (units - GAP) * size / UNITS : 0;
}

const char *cli_text_fit(const char *text, double size, double width, char *out, size_t room)
{
    size_t n, used = 0;
    snprintf(out, room, "%s", text);
    if (cli_text_width(text, size) <= width && strlen(text) < room)
        return out;
    const double dots = cli_text_width("..", size);
    double units = 0;
    for (; *text; text += n) {
        units += advance(glyph_of(text, &n));
        if (units * size / UNITS + dots > width || used + n + 3 > room)
            break;
        memcpy(out + used, text, n);
        used += n;
    }
    strcpy(out + used, "..");
    return out;
}

struct point {
    double x, y;
};

struct outline {
    struct {
        struct point a, b;
    } segments[SEGMENTS];
    size_t n;
};

static void add(struct outline *outline, struct point a, struct point b)
{
    if (outline->n == SEGMENTS)
        return;
    outline->segments[outline->n].a = a;
    outline->segments[outline->n++].b = b;
}

static struct point middle(struct point a, struct point b)
{
    return (struct point){(a.x + b.x) / 2, (a.y + b.y) / 2};
}

/* The curve from a to b that leaves towards `by` and comes from there. */
static void add_curve(struct outline *outline, struct point a, struct point by, struct point b)
{
    enum { STEPS = 6 };
    struct point last = a;
    for (int i = 1; i <= STEPS; i++) {
        const double t = (double)i / STEPS, s = 1 - t;
        const struct point next = {s * s * a.x + 2 * s * t * by.x + t * t * b.x,
                                   s * s * a.y + 2 * s * t * by.y + t * t * b.y};
        add(outline, last, next);
        last = next;
    }
}

static void add_stroke(struct outline *outline, char kind, const struct point *p, size_t n)
{
    if (kind == 'o')
        for (size_t i = 0; i < n; i++)
            add_curve(outline, middle(p[i], p[(i + 1) % n]), p[(i + 1) % n], middle(p[(i + 1) % n], p[(i + 2) % n]));
    else if (kind == '~' && n > 2)
        for (size_t i = 1; i + 1 < n; i++)
            add_curve(outline, i == 1 ? p[0] : middle(p[i - 1], p[i]), p[i],
                      i + 2 == n ? p[n - 1] : middle(p[i], p[i + 1]));
    else
        for (size_t i = 0; i + 1 < n || (i == 0 && n == 1); i++)
            add(outline, p[i], p[n == 1 ? i : i + 1]);
}

/* The strokes of a glyph in pixels. */
static void trace(const char *glyph, double x, double y, double unit, struct outline *outline)
{
    outline->n = 0;
    for (const char *at = glyph + 1; *at;) {
        struct point points[16];
        const char kind = *at++;
        size_t n = 0;
        for (; at[0] && !strchr("-~o.", at[0]) && n < 16; at += 2, n++)
            points[n] = (struct point){x + digit(at[0]) * unit, y + (digit(at[1]) - UNITS) * unit};
        add_stroke(outline, kind, points, n);
    }
}

static double distance(const struct outline *outline, double x, double y)
{
    double least = INFINITY;
    for (size_t i = 0; i < outline->n; i++) {
        const struct point a = outline->segments[i].a, b = outline->segments[i].b;
        const double dx = b.x - a.x, dy = b.y - a.y, length = dx * dx + dy * dy;
        const double t = length > 0 ? fmin(fmax(((x - a.x) * dx + (y - a.y) * dy) / length, 0), 1) : 0;
        least = fmin(least, hypot(x - a.x - t * dx, y - a.y - t * dy));
    }
    return least;
}

void cli_text_draw(const char *text, double x, double y, double size, double weight, cli_text_dot dot, void *user)
{
    const double unit = size / UNITS, half = fmax(0.52, size * 0.062) * weight;
    struct outline outline;
    for (size_t n; *text; text += n) {
        const char *glyph = glyph_of(text, &n);
        trace(glyph, x, y, unit, &outline);
        const int left = (int)floor(x - half - 1), right = (int)ceil(x + digit(glyph[0]) * unit + half + 1);
        const int top = (int)floor(y - size - half - 1), bottom = (int)ceil(y + size * 0.36 + half + 1);
        for (int row = top; row <= bottom && outline.n; row++)
            for (int column = left; column <= right; column++) {
                const double cover = half + 0.5 - distance(&outline, column + 0.5, row + 0.5);
                if (cover > 0)
                    dot(user, column, row, fmin(cover, 1));
            }
        x += advance(glyph) * unit;
    }
}
