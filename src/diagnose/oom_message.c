/* SPDX-License-Identifier: MIT */
/*
 * Finding out-of-memory messages in a text and reading their figures.
 *
 * The wordings differ by version, but each figure stands beside words of its own: "20.00 MiB
 * allowed", "total capacity of 15.78 GiB". So a message is not parsed as a sentence: every size in
 * it is looked at, and a table says what the words before or behind it make of it. What a version
 * to come adds is passed over. All input is a stranger's.
 */
#include "diagnose/oom_message.h"

#include <math.h>
#include <string.h>

enum { INTEGER_MAX = 1000000 }; /* device and rank numbers beyond it are nonsense */

static const char tried[] = "Tried to allocate";

/* Words by which a message is known. A blank stands for any blanks and line breaks. */
static const struct {
    const char *words;
    plm_oom_form form; /* BARE: which wording it is shows in what follows */
} marks[] = {
    {"out of memory. Tried to allocate", PLM_OOM_FORM_BARE},
    {"MPS backend out of memory", PLM_OOM_FORM_MPS},
    {"Allocation on device", PLM_OOM_FORM_ASYNC},
    {"CUDA out of memory", PLM_OOM_FORM_BARE},
    {"HIP out of memory", PLM_OOM_FORM_BARE},
    {"XPU out of memory", PLM_OOM_FORM_BARE},
    {tried, PLM_OOM_FORM_BARE}, /* the beginning was cut off */
    {"CUDA error: out of memory", PLM_OOM_FORM_LIBRARY},
    {"HIP error: out of memory", PLM_OOM_FORM_LIBRARY},
    {"cuda runtime error (2) : out of memory", PLM_OOM_FORM_LIBRARY},
    {"Cuda failure 'out of memory'", PLM_OOM_FORM_LIBRARY},
    {"Cuda failure 2 'out of memory'", PLM_OOM_FORM_LIBRARY},
    {"CUBLAS_STATUS_ALLOC_FAILED", PLM_OOM_FORM_LIBRARY},
    {"CUDNN_STATUS_ALLOC_FAILED", PLM_OOM_FORM_LIBRARY},
    {"DefaultCPUAllocator: can't allocate memory", PLM_OOM_FORM_HOST},
    {"DefaultCPUAllocator: not enough memory", PLM_OOM_FORM_HOST},
    {"Out of memory: Killed process", PLM_OOM_FORM_HOST},
};

/* What a size is, by the words before it and behind it; the first row that fits counts. */
static const struct {
    plm_oom_figure_kind kind;
    const char *before; /* NULL: anything */
    const char *behind;
} places[] = {
    {PLM_OOM_ASKED, "Tried to allocate", NULL},
    {PLM_OOM_ASKED, "tried to allocate", NULL},
    {PLM_OOM_ASKED, "Requested", NULL},
    {PLM_OOM_CAPACITY, "total capacity of", NULL},
    {PLM_OOM_CAPACITY, "total capacty of", NULL}, /* as 2.1 spelt it */
    {PLM_OOM_CAPACITY, "Device limit", NULL},
    {PLM_OOM_CAPACITY, NULL, "total capacity"},
    {PLM_OOM_FREE, "of which", NULL},
    {PLM_OOM_FREE, "Free (according to CUDA)", NULL},
    {PLM_OOM_FREE, NULL, "free"},
    {PLM_OOM_ALLOWED, "max allowed", NULL},
    {PLM_OOM_ALLOWED, "memory fraction)", NULL},
    {PLM_OOM_ALLOWED, NULL, "allowed"},
    {PLM_OOM_THIS_PROCESS, "this process has", NULL},
    {PLM_OOM_LISTED, " has", "memory in use"},
    {PLM_OOM_ALLOCATED, "Currently allocated", NULL},
    {PLM_OOM_ALLOCATED, "MPS allocated", NULL},
    {PLM_OOM_ALLOCATED, NULL, "already allocated"},
    {PLM_OOM_ALLOCATED, NULL, "is allocated by PyTorch"},
    {PLM_OOM_PRIVATE, NULL, "allocated in private pools"},
    {PLM_OOM_RESERVED, NULL, "reserved in total"},
    {PLM_OOM_RESERVED, NULL, "cached"}, /* before 1.4 */
    {PLM_OOM_UNALLOCATED, NULL, "is reserved by PyTorch but unallocated"},
};

/* Units are binary whatever they are called: MPS writes GB for GiB. */
static const struct {
    const char *name;
    double bytes;
} units[] = {
    {"bytes", 1}, {"KiB", 1024},  {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40},
    {"KB", 1024}, {"MB", 0x1p20}, {"GB", 0x1p30},  {"byte", 1},
};

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The end of `words` at `text`, where a blank matches one or more; NULL when they are not there. */
static const char *match_words(const char *text, const char *end, const char *words)
{
    for (; *words; words++) {
        if (text == end || (*words == ' ' ? !is_blank(*text) : *text != *words))
            return NULL;
        text++;
        if (*words == ' ')
            while (text < end && is_blank(*text))
                text++;
    }
    return text;
}

/* The mark that begins at `text`, and in *behind where it ends; -1 when there is none. */
static int mark_at(const char *text, const char *end, const char **behind)
{
    static const bool begins[256] = {
        ['o'] = true, ['M'] = true, ['C'] = true, ['H'] = true, ['X'] = true,
        ['T'] = true, ['c'] = true, ['D'] = true, ['O'] = true, ['A'] = true};
    if (!begins[(unsigned char)*text])
        return -1;
    for (int i = 0; i < (int)(sizeof marks / sizeof *marks); i++) {
        *behind = match_words(text, end, marks[i].words);
        if (*behind)
            return i;
    }
    return -1;
}

/* Reads digits; *number is -1 when there are none or they say more than INTEGER_MAX. */
static const char *read_integer(const char *text, int32_t *number)
{
    int64_t value = -1;
    for (; is_digit(*text); text++)
        value = value > INTEGER_MAX ? value : (value < 0 ? 0 : value * 10) + (*text - '0');
    *number = value > INTEGER_MAX ? -1 : (int32_t)value;
    return text;
}

/* A size at `text`, NUL-ended: "18.75 MiB". NULL when there is none, else its end. */
static const char *read_size(const char *text, plm_oom_figure *figure)
{
    double value = 0, digit = 1;
    for (; is_digit(*text); text++)
        value = value * 10 + (*text - '0');
    if (*text == '.' && is_digit(text[1]))
        for (text++; is_digit(*text); text++) {
            digit /= 10;
            value += (*text - '0') * digit;
        }
    text += *text == ' ';
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t length = strlen(units[i].name);
        if (strncmp(text, units[i].name, length) != 0)
            continue;
        double bytes = round(value * units[i].bytes);
        double half = units[i].bytes == 1 ? 0 : digit * units[i].bytes / 2;
        *figure = (plm_oom_figure){
            .known = true,
            .bytes = bytes < 0x1p63 ? (size_t)bytes : SIZE_MAX, /* NaN cannot come of digits */
            .precision = bytes < 0x1p63 ? (size_t)half : 0,
        };
        return text + length;
    }
    return NULL;
}

/* Does the text that ends before `text` end in `words`, blanks and colons between not counted? */
static bool ends_in(const char *begin, const char *text, const char *words)
{
    while (text > begin && (text[-1] == ' ' || text[-1] == ':'))
        text--;
    size_t length = strlen(words);
    return (size_t)(text - begin) >= length && memcmp(text - length, words, length) == 0;
}

static void place_figure(const char *begin, const char *text, const char *behind,
                         const plm_oom_figure *figure, plm_oom_message *message)
{
    behind += strspn(behind, " ");
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (places[i].before && !ends_in(begin, text, places[i].before))
            continue;
        if (places[i].behind && strncmp(behind, places[i].behind, strlen(places[i].behind)) != 0)
            continue;
        plm_oom_figure *there = &message->figures[places[i].kind];
        if (places[i].kind == PLM_OOM_LISTED) {
            bool fits = figure->bytes <= SIZE_MAX - there->bytes;
            there->known = true;
            there->bytes = fits ? there->bytes + figure->bytes : SIZE_MAX;
            there->precision += figure->precision;
            message->listed++;
        } else if (!there->known) {
            *there = *figure;
        }
        return;
    }
}

/* The first number behind "GPU " or "on device ". */
static int32_t find_device(const char *text)
{
    static const char *const words[] = {"GPU ", "on device "};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (const char *at = text; (at = strstr(at, words[i]));) {
            int32_t number;
            at += strlen(words[i]);
            read_integer(at, &number);
            if (number >= 0)
                return number;
        }
    return -1;
}

/* The figure that stands last in its wording: what follows is another line of the log. */
static bool is_complete(const plm_oom_message *message)
{
    const plm_oom_figure *figures = message->figures;
    switch (message->form) {
    case PLM_OOM_FORM_ASYNC:
        return figures[PLM_OOM_ALLOWED].known;
    case PLM_OOM_FORM_MPS:
    case PLM_OOM_FORM_HOST:
        return figures[PLM_OOM_ASKED].known;
    default:
        return figures[PLM_OOM_UNALLOCATED].known || figures[PLM_OOM_RESERVED].known;
    }
}

/* Reads one message, made plain: blanks single, ended by a NUL. */
static void read_message(const char *text, plm_oom_message *message)
{
    for (const char *at = text; *at && !is_complete(message);) {
        if (!is_digit(*at)) {
            at++;
            continue;
        }
        plm_oom_figure figure;
        const char *behind = read_size(at, &figure);
        if (behind)
            place_figure(text, at, behind, &figure, message);
        while (is_digit(*at) || *at == '.')
            at++;
    }
    if (strstr(text, "Tried to allocate more than 1EB"))
        message->figures[PLM_OOM_ASKED] = (plm_oom_figure){.known = true, .bytes = SIZE_MAX};
    message->split_advice = strstr(text, "max_split_size_mb") != NULL;
    message->device = find_device(text);
}

/* Which wording of the caching allocator it is, from what was found; without what was asked for
 * the figures belong to other lines. */
static void settle_form(plm_oom_message *message, const char *text)
{
    plm_oom_figure *figures = message->figures;
    if (!figures[PLM_OOM_ASKED].known)
        memset(figures, 0, sizeof message->figures);
    else if (figures[PLM_OOM_RESERVED].known || strstr(text, "total capacity;") ||
             strstr(text, "already allocated"))
        message->form = PLM_OOM_FORM_PYTORCH_1;
    else
        message->form = PLM_OOM_FORM_PYTORCH_2;
}

/* Copies a message with its blanks made single and launchers' marks at line starts left out. */
static void make_plain(const char *text, const char *end, char plain[PLM_OOM_MESSAGE_MAX + 1])
{
    size_t count = 0;
    while (text < end && count < PLM_OOM_MESSAGE_MAX) {
        if (!is_blank(*text)) {
            plain[count++] = *text ? *text : '?';
            text++;
            continue;
        }
        bool broken = false;
        for (; text < end && is_blank(*text); text++)
            broken |= *text == '\n';
        const char *mark = broken ? match_words(text, end, "[rank") : NULL;
        const char *close = mark ? memchr(mark, ']', (size_t)(end - mark)) : NULL;
        if (close && close - mark < 8)
            for (text = close + 1; text < end && (*text == ':' || is_blank(*text));)
                text++;
        plain[count++] = ' ';
    }
    plain[count] = '\0';
}

/* The rank that the line names before the message: "[rank3]:", "rank=3", "[Rank 3]". */
static int32_t find_rank(const char *line, const char *text)
{
    static const char *const words[] = {"[rank", "rank=", "[Rank ", "Rank "};
    char before[PLM_OOM_LINE_MAX + 1];
    size_t count = (size_t)(text - line);
    if (count > PLM_OOM_LINE_MAX) {
        line = text - PLM_OOM_LINE_MAX;
        count = PLM_OOM_LINE_MAX;
    }
    for (size_t i = 0; i < count; i++)
        before[i] = line[i] ? line[i] : '?';
    before[count] = '\0';
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *found = strstr(before, words[i]);
        int32_t number = -1;
        if (found)
            read_integer(found + strlen(words[i]), &number);
        if (number >= 0)
            return number;
    }
    return -1;
}

/* The word in capitals that the message begins with, or that stands before it: "CUDA", "HIP". */
static void find_backend(const char *begin, const char *text, const char *end, char backend[8])
{
    if (*text < 'A' || *text > 'Z' || text[1] < 'A' || text[1] > 'Z') {
        while (text > begin && is_blank(text[-1]))
            text--;
        while (text > begin && text[-1] >= 'A' && text[-1] <= 'Z')
            text--;
    }
    size_t count = 0;
    while (count < 8 && text + count < end && text[count] >= 'A' && text[count] <= 'Z')
        count++;
    if (count < 2 || count > 7 || text + count == end || !is_blank(text[count]))
        return;
    memcpy(backend, text, count);
    backend[count] = '\0';
}

static void count_source(plm_oom_report *report, const plm_oom_message *message)
{
    report->message_count++;
    for (int32_t i = 0; i < report->source_count; i++) {
        plm_oom_source *source = &report->sources[i];
        if (source->rank == message->rank && source->device == message->device) {
            source->count++;
            return;
        }
    }
    if (report->source_count == PLM_OOM_SOURCES_MAX) {
        report->sources_left_out = true;
        return;
    }
    report->sources[report->source_count++] = (plm_oom_source){
        .rank = message->rank,
        .device = message->device,
        .count = 1,
        .first_line = message->line,
    };
}

/*
 * Where the message ends whose mark ended at *behind: before the next mark. "Tried to allocate" is
 * a part of the message, once; *behind is moved over it.
 */
static const char *find_end(const char *text, const char *all_end, bool has_tried,
                            const char **behind)
{
    const char *end = *behind;
    while (end < all_end && end - text < PLM_OOM_MESSAGE_MAX) {
        const char *next;
        int mark = mark_at(end, all_end, &next);
        if (mark >= 0 && (has_tried || marks[mark].words != tried))
            break;
        if (mark >= 0) {
            has_tried = true;
            *behind = next;
        }
        end++;
    }
    return end;
}

/* The message at `text`, whose mark ends at `behind`; returns where to look on. */
static const char *take_message(plm_oom_scan *scan, const char *text, const char *behind, int mark)
{
    const char *all_end = scan->bytes + scan->count;
    bool has_tried = strstr(marks[mark].words, tried) != NULL;
    const char *end = find_end(text, all_end, has_tried, &behind);
    char plain[PLM_OOM_MESSAGE_MAX + 1];
    plm_oom_message message = {.form = marks[mark].form, .line = scan->line, .device = -1};
    make_plain(text, end, plain);
    message.rank = find_rank(scan->bytes + scan->line_begin, text);
    find_backend(scan->bytes, text, all_end, message.backend);
    if (message.form != PLM_OOM_FORM_LIBRARY)
        read_message(plain, &message);
    if (message.form == PLM_OOM_FORM_BARE)
        settle_form(&message, plain);
    scan->report->message = message;
    count_source(scan->report, &message);
    return behind;
}

void plm__oom_scan_begin(plm_oom_scan *scan, plm_oom_report *report)
{
    scan->count = scan->next = scan->line_begin = 0;
    scan->line = 1;
    scan->report = report;
    *report = (plm_oom_report){0};
}

char *plm__oom_scan_room(plm_oom_scan *scan, size_t *byte_count)
{
    size_t keep = scan->next > PLM_OOM_LINE_MAX ? scan->next - PLM_OOM_LINE_MAX : 0;
    memmove(scan->bytes, scan->bytes + keep, scan->count - keep);
    scan->count -= keep;
    scan->next -= keep;
    scan->line_begin = scan->line_begin > keep ? scan->line_begin - keep : 0;
    *byte_count = sizeof scan->bytes - scan->count;
    return scan->bytes + scan->count;
}

void plm__oom_scan_take(plm_oom_scan *scan, size_t byte_count, bool last)
{
    scan->count += byte_count;
    const char *end = scan->bytes + scan->count;
    size_t ahead = last ? 0 : PLM_OOM_MESSAGE_MAX; /* a message must be seen whole */
    const char *stop = scan->count > ahead ? end - ahead : scan->bytes;
    const char *at = scan->bytes + scan->next;
    while (at < stop) {
        const char *behind, *from = at;
        int mark = mark_at(at, end, &behind);
        at = mark < 0 ? at + 1 : take_message(scan, at, behind, mark);
        for (; from < at; from++)
            if (*from == '\n') {
                scan->line++;
                scan->line_begin = (size_t)(from + 1 - scan->bytes);
            }
    }
    scan->next = (size_t)(at - scan->bytes);
}
