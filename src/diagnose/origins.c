/* SPDX-License-Identifier: MIT */
/*
 * Two tables: of functions that say which part of a step a block was made in, and of those that say
 * by which operation. Frames are walked from the innermost out; the first row that fits decides.
 */
#include "diagnose/origins.h"

#include <string.h>

#define CHECKPOINTING "torch.utils.checkpoint around the block that holds the line"

/* A file ends with `file`, a function is one of `functions` (space at each end; NULL: any). */
typedef struct part_row {
    const char *file;
    const char *functions;
    plm_part part;
} part_row;

static const part_row part_rows[] = {
    {"torch/autograd/__init__.py", " _make_grads ", PLM_PART_BACKWARD},
    {"/_fsdp_param.py", " _init_sharded_param ", PLM_PART_PARAMETERS},
    {"/_fsdp_collectives.py", " foreach_reduce ", PLM_PART_GRADIENTS},
    {"torch/nn/modules/module.py", " _apply convert to_empty ", PLM_PART_PARAMETERS},
    {"/parameter.py", " __new__ materialize ", PLM_PART_PARAMETERS},
};

typedef struct work_row {
    const char *what;
    const char *functions; /* of torch/nn/functional.py */
    const char *file;      /* under torch/nn/modules/, for layers that call C++ at once; NULL */
    const char *calls;     /* at::_ops::NAME */
    const char *remedy;
} work_row;

static const work_row work_rows[] = {
    {"loss",
     " cross_entropy log_softmax nll_loss binary_cross_entropy_with_logits kl_div mse_loss ",
     "loss.py", " cross_entropy_loss _log_softmax log_softmax nll_loss_forward nll_loss ",
     "a head and loss that run over the tokens in chunks, so that logits are never whole"},
    {"softmax", " softmax ", NULL, " softmax _softmax ",
     "fused attention (scaled_dot_product_attention), if these are attention's probabilities"},
    {"fused attention", NULL, NULL,
     " scaled_dot_product_attention _scaled_dot_product_efficient_attention "
     "_scaled_dot_product_flash_attention _scaled_dot_product_cudnn_attention ",
     CHECKPOINTING},
    {"dropout", " dropout dropout1d dropout2d dropout3d alpha_dropout ", "dropout.py",
     " native_dropout dropout ", CHECKPOINTING ", or no dropout"},
    {"activation function",
     " gelu relu relu6 silu elu selu celu leaky_relu mish hardswish hardtanh softplus tanh sigmoid "
     "glu ",
     "activation.py", " gelu relu silu elu leaky_relu mish hardswish clamp_min tanh sigmoid glu ",
     CHECKPOINTING ": its output is cheap to make again"},
    {"normalisation", " layer_norm rms_norm group_norm batch_norm instance_norm ",
     "normalization.py batchnorm.py", " native_layer_norm native_batch_norm layer_norm rms_norm ",
     CHECKPOINTING ": its output is cheap to make again"},
    {"embedding", " embedding embedding_bag ", "sparse.py", " embedding ", CHECKPOINTING},
    {"convolution", NULL, "conv.py", " convolution conv2d conv1d cudnn_convolution ",
     CHECKPOINTING},
    {"linear layers", " linear ", "linear.py", " linear addmm ", CHECKPOINTING},
    {"matrix product", NULL, NULL, " matmul bmm baddbmm mm ",
     "fused attention (scaled_dot_product_attention), if these are attention's scores; "
     "else " CHECKPOINTING},
    {"conversion of type", NULL, NULL, " _to_copy to ", CHECKPOINTING},
};

static const work_row own_line = {
    .what = "a line of the program",
    .remedy = "fused attention (scaled_dot_product_attention), if the line is a part of attention; "
              "else " CHECKPOINTING};

static const work_row gathered = {.what = "parameters gathered by FSDP",
                                  .remedy = "reshard_after_forward=True on that layer's group"};

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), wanted = strlen(end);
    return length >= wanted && strcmp(text + length - wanted, end) == 0;
}

/* `word` stands among words with spaces around each. */
static bool is_among(const char *words, const char *word, size_t length)
{
    for (const char *at = words; at && length > 0 && (at = strstr(at, word)); at++)
        if (at > words && at[-1] == ' ' && at[length] == ' ')
            return true;
    return false;
}

static bool has_word(const char *words, const char *word)
{
    return is_among(words, word, strlen(word));
}

static bool is_python(const char *file)
{
    return ends_with(file, ".py") || file[0] == '<';
}

static bool is_internal(const char *file)
{
    return strncmp(file, "torch/", 6) == 0 || strstr(file, "/torch/") ||
           strncmp(file, "<frozen ", 8) == 0;
}

/* The name in "at::_ops::NAME::call(...)", copied; false for any other function. */
static bool called_name(const char *function, char name[64])
{
    static const char start[] = "at::_ops::";
    if (strncmp(function, start, sizeof start - 1) != 0)
        return false;
    const char *from = function + sizeof start - 1, *end = strstr(from, "::");
    if (!end || end - from >= 64)
        return false;
    memcpy(name, from, (size_t)(end - from));
    name[end - from] = '\0';
    return true;
}

static bool row_fits(const work_row *row, const char *function, const char *file)
{
    char name[64];
    if (!is_python(file))
        return row->calls && called_name(function, name) && has_word(row->calls, name);
    if (ends_with(file, "torch/nn/functional.py"))
        return row->functions && has_word(row->functions, function);
    if (!row->file || strcmp(function, "forward") != 0)
        return false;
    const char *modules = strstr(file, "torch/nn/modules/");
    if (!modules)
        return false;
    const char *base = modules + strlen("torch/nn/modules/");
    const char *found = strstr(row->file, base);
    return found && (found == row->file || found[-1] == ' ');
}

static const work_row *find_work(const char *function, const char *file)
{
    if (strstr(file, "torch/distributed/fsdp/"))
        return &gathered;
    for (size_t i = 0; i < sizeof work_rows / sizeof *work_rows; i++)
        if (row_fits(&work_rows[i], function, file))
            return &work_rows[i];
    return NULL;
}

/* The part that one frame proves; PROGRAM when it proves none. */
static plm_part part_of_frame(const char *function, const char *file)
{
    for (size_t i = 0; i < sizeof part_rows / sizeof *part_rows; i++)
        if (ends_with(file, part_rows[i].file) && has_word(part_rows[i].functions, function))
            return part_rows[i].part;
    if (strstr(file, "torch/nn/modules/") && strcmp(function, "__init__") == 0)
        return PLM_PART_PARAMETERS;
    if (strstr(file, "torch/optim/"))
        return strcmp(function, "_init_group") == 0 || strcmp(function, "__setstate__") == 0
                   ? PLM_PART_OPTIMIZER_STATE
                   : PLM_PART_OPTIMIZER;
    if (strncmp(function, "at::cuda::setWorkspaceForHandle", 31) == 0)
        return PLM_PART_WORKSPACE;
    if (strncmp(function, "torch::autograd::generated::", 28) == 0)
        return PLM_PART_BACKWARD;
    return PLM_PART_PROGRAM;
}

plm_origin plm__origin_of_stack(const plm_trace *trace, int32_t stack)
{
    int64_t depth = plm_trace_stack_depth(trace, stack);
    plm_origin origin = {.part = depth > 0 ? PLM_PART_PROGRAM : PLM_PART_NO_STACK};
    const work_row *work = NULL;
    for (int64_t i = 0; i < depth; i++) {
        plm_frame frame = plm_trace_stack_frame(trace, stack, i);
        const char *function = plm_trace_text(trace, frame.function);
        const char *file = plm_trace_text(trace, frame.file);
        plm_part part = part_of_frame(function, file);
        if (origin.part == PLM_PART_PROGRAM)
            origin.part = (uint8_t)part;
        origin.checkpointed |= ends_with(file, "torch/utils/checkpoint.py");
        if (!work)
            work = find_work(function, file);
        if (!work && is_python(file) && !is_internal(file))
            work = &own_line;
    }
    work = work ? work : &own_line;
    origin.what = work->what;
    origin.remedy = work->remedy;
    return origin;
}
