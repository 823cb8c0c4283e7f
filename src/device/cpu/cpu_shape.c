/* SPDX-License-Identifier: MIT */
/*
 * Checks the operands of a launch against the words that graph/ops.def states for them, so that
 * kernels may rely on shapes, types and contiguity. An absent operand has rank 0. Words that bear
 * no mark of a type are of one type, the precision: fp32, bf16 or fp16.
 *
 * P, the rows of a position table, is at least T. H is attr.heads; Q and A hold whole heads.
 */
#include <string.h>

#include "base/size.h"
#include "device/cpu/cpu_internal.h"
#include "base/dtype.h"

enum { EXTENTS = 128 }; /* one for each character of a word */

/* What one check knows so far. */
typedef struct check {
    const char *op;
    const char *section; /* "input", "output", "effect" */
    int index;           /* within the section */
    int64_t extent[EXTENTS];
    bool known[EXTENTS];
    const plm_operand *first; /* of the words whose type is the precision; NULL: none so far */
} check;

static plm_status bind(check *c, char letter, int64_t extent)
{
    int key = letter & (EXTENTS - 1);
    PLM_FAIL_IF(c->known[key] && c->extent[key] != extent, PLM_ERROR_ARGUMENT,
                "%s, %s %d: wanted %c = %lld, found %lld", c->op, c->section, c->index, letter,
                (long long)c->extent[key], (long long)extent);
    c->known[key] = true;
    c->extent[key] = extent;
    return PLM_OK;
}

/* `mark` is the one of #, ! and ~ that stands before the word, 0 for none. */
static plm_status check_dtype(check *c, const plm_operand *operand, char mark)
{
    const plm_dtype found = operand->dtype;
    bool real = plm__dtype_is_real(found);
    if (mark == 0 && real && !c->first)
        c->first = operand;
    bool right = mark == '#'   ? found == PLM_DTYPE_I32
                 : mark == '!' ? found == PLM_DTYPE_F32
                 : mark == '~' ? found == PLM_DTYPE_F32 || found == PLM_DTYPE_BF16
                               : real && found == c->first->dtype;
    const char *wanted = mark == '#'                ? "int32"
                         : mark == '!'              ? "fp32"
                         : mark == '~' || !c->first ? "fp32 or bf16"
                                                    : plm_dtype_text(c->first->dtype);
    PLM_FAIL_IF(!right, PLM_ERROR_UNSUPPORTED, "%s, %s %d: wanted %s, found %s", c->op, c->section,
                c->index, wanted, plm_dtype_text(found));
    return PLM_OK;
}

/* Contiguous, extents not negative, bytes within size_t. */
static plm_status check_layout(const check *c, const plm_operand *operand, int64_t *count)
{
    PLM_FAIL_IF(operand->rank < 1 || operand->rank > PLM_RANK_MAX, PLM_ERROR_ARGUMENT,
                "%s, %s %d: wanted 1 to %d dimensions, found %d", c->op, c->section, c->index,
                PLM_RANK_MAX, operand->rank);
    bool dense = true;
    int64_t elements = 1;
    for (int32_t i = operand->rank - 1; i >= 0; i--) {
        int64_t extent = operand->shape[i];
        PLM_FAIL_IF(extent < 0, PLM_ERROR_ARGUMENT, "%s, %s %d: extent %lld is negative", c->op,
                    c->section, c->index, (long long)extent);
        dense = dense && (extent == 1 || operand->stride[i] == elements);
        PLM_FAIL_IF(__builtin_mul_overflow(elements, extent, &elements), PLM_ERROR_OVERFLOW,
                    "%s, %s %d: too many elements", c->op, c->section, c->index);
    }
    PLM_FAIL_IF(!dense && elements > 0, PLM_ERROR_UNSUPPORTED,
                "%s, %s %d: wanted a contiguous tensor, found strides", c->op, c->section,
                c->index);
    size_t bytes;
    PLM_TRY(plm__dtype_bytes(operand->dtype, elements, &bytes));
    *count = elements;
    return PLM_OK;
}

/* The letters of one word against the extents of one operand. */
static plm_status match_extents(check *c, const char *word, int letters, const plm_operand *operand)
{
    int dimensions = letters, at = 0;
    if (*word == 'R') {
        int64_t rows = 1;
        for (; at <= operand->rank - dimensions; at++)
            rows *= operand->shape[at];
        PLM_TRY(bind(c, 'R', rows));
        word++, dimensions--;
    }
    PLM_FAIL_IF(operand->rank - at != dimensions, PLM_ERROR_ARGUMENT,
                "%s, %s %d: wanted dimensions %.*s, found %d", c->op, c->section, c->index,
                dimensions, word, operand->rank);
    for (; at < operand->rank; at++)
        PLM_TRY(bind(c, *word++, operand->shape[at]));
    return PLM_OK;
}

static plm_status match_operand(check *c, const char *word, int letters, const plm_operand *operand)
{
    if (*word == '?' && plm__operand_is_absent(operand))
        return PLM_OK;
    char mark = 0;
    for (; strchr(PLM_OPERAND_MARKS, *word); word++, letters--)
        if (*word != '?' && *word != '^')
            mark = *word;
    int64_t count;
    PLM_TRY(check_dtype(c, operand, mark));
    PLM_TRY(check_layout(c, operand, &count));
    if (*word == '*')
        return bind(c, '*', count);
    return *word == '.' ? PLM_OK : match_extents(c, word, letters, operand);
}

/* The rules between extents that a signature cannot say. */
static plm_status check_relations(const check *c, const plm_op_attr *attr)
{
    PLM_FAIL_IF(c->known['P'] && c->extent['P'] < c->extent['T'], PLM_ERROR_ARGUMENT,
                "%s: %lld positions, the table has %lld", c->op, (long long)c->extent['T'],
                (long long)c->extent['P']);
    if (!c->known['H'])
        return PLM_OK;
    int64_t parts = attr->heads + 2 * (int64_t)attr->key_heads, packed = c->extent['Q'];
    int64_t plain = c->known['A'] ? c->extent['A'] : packed / parts * attr->heads;
    PLM_FAIL_IF(packed % parts != 0 || packed / parts * attr->heads != plain, PLM_ERROR_ARGUMENT,
                "%s: wanted %d heads and twice %d key-value heads of one size, found %lld columns "
                "packed and %lld plain",
                c->op, attr->heads, attr->key_heads, (long long)packed, (long long)plain);
    return PLM_OK;
}

plm_status plm__cpu_check_shapes(const plm_launch *launch)
{
    PLM_FAIL_IF((unsigned)launch->kind >= PLM_OP_COUNT, PLM_ERROR_UNSUPPORTED,
                "operation %d is not one of the table's", (int)launch->kind);
    const plm_op_info *row = plm__op_info_of(launch->kind);
    check c = {.op = row->text, .section = "input"};
    const plm_operand *operand = launch->in;
    const char *word = row->operands;
    if (strchr(word, 'H')) {
        int32_t heads = launch->attr.heads, shared = launch->attr.key_heads;
        PLM_FAIL_IF(heads < 1 || shared < 1 || heads % shared != 0, PLM_ERROR_ARGUMENT,
                    "%s: %d heads and %d key-value heads", c.op, heads, shared);
        PLM_TRY(bind(&c, 'H', heads));
    }
    for (int letters = 0; *word; word += letters + strspn(word + letters, " ")) {
        letters = (int)strcspn(word, " ");
        if (*word == '>' || *word == ';') {
            operand = *word == '>' ? launch->out : launch->effect;
            c.section = *word == '>' ? "output" : "effect";
            c.index = 0;
            continue;
        }
        PLM_TRY(match_operand(&c, word, letters, operand++));
        c.index++;
    }
    return check_relations(&c, &launch->attr);
}
