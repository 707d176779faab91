/* A font of strokes, drawn smoothly in any size. It has the characters of ASCII; any other one is a small frame. */
#ifndef LEAT_CLI_DRAW_FONT_H
#define LEAT_CLI_DRAW_FONT_H

#include <stddef.h>
#include <stdint.h>

/* A font size is the height of capitals in pixels; g and p reach a third of it below the line. */

/* The width of a text. Invalid UTF-8 counts byte by byte. */
double cli_text_width(const char *text, double size);

/* Calls `dot` for each pixel that the text covers, in whole or in part. (x, y) is the left end of the line that
 * capitals stand on; `cover` is 0 to 1. `weight`: the thickness of strokes, 1 is usual. */
typedef void (*cli_text_dot)(void *user, int x, int y, double cover);
void cli_text_draw(const char *text, double x, double y, double size, double weight, cli_text_dot dot, void *user);

/* Shortens a text to at most `width` pixels: "a long na...". Returns `out`. */
const char *cli_text_fit(const char *text, double size, double width, char *out, size_t room);

#endif
