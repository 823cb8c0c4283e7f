/* SPDX-License-Identifier: MIT */
/*
 * What the stand-in must know of cuDNN 9's binary interface: numbers of descriptors, attributes and
 * knobs, as NVIDIA's documentation of the backend names them. cuDNN's headers are not needed to
 * build. Every handle and descriptor is an opaque pointer and every enumeration an int.
 */
#ifndef PLM_PHANTOM_CUDNN_ABI_H
#define PLM_PHANTOM_CUDNN_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef void *plm_cudnn_descriptor;

enum { /* cudnnStatus_t */
       CUDNN_STATUS_SUCCESS = 0,
       CUDNN_STATUS_NOT_SUPPORTED = 3000,
};

enum { /* cudnnDataType_t */
       CUDNN_DATA_FLOAT = 0,
       CUDNN_DATA_DOUBLE = 1,
       CUDNN_DATA_HALF = 2,
       CUDNN_DATA_BFLOAT16 = 9,
};

enum { /* cudnnBackendDescriptorType_t */
       CUDNN_BACKEND_ENGINE_DESCRIPTOR = 2,
       CUDNN_BACKEND_ENGINECFG_DESCRIPTOR = 3,
       CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR = 4,
       CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR = 5,
       CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR = 7,
       CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR = 10,
       CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR = 11,
       CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR = 12,
       CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR = 15,
       CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR = 38, /* from cuDNN 9.2 on */
};

enum { /* cudnnBackendAttributeType_t */
       CUDNN_TYPE_HANDLE = 0,
       CUDNN_TYPE_DATA_TYPE = 1,
       CUDNN_TYPE_INT64 = 3,
       CUDNN_TYPE_KNOB_TYPE = 9,
       CUDNN_TYPE_BACKEND_DESCRIPTOR = 15,
       CUDNN_TYPE_CHAR = 24,
};

enum { /* cudnnBackendAttributeName_t */
       CUDNN_ATTR_CONVOLUTION_DILATIONS = 102,
       CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES = 103,
       CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS = 105,
       CUDNN_ATTR_ENGINEHEUR_MODE = 200,
       CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH = 201,
       CUDNN_ATTR_ENGINEHEUR_RESULTS = 202,
       CUDNN_ATTR_ENGINEHEUR_DEVICEPROP = 204,
       CUDNN_ATTR_ENGINECFG_ENGINE = 300,
       CUDNN_ATTR_ENGINECFG_KNOB_CHOICES = 302,
       CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE = 303,
       CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG = 401,
       CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE = 402,
       CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE = 600,
       CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE = 601,
       /* An operation's six attributes follow each other: alpha, beta, the convolution, the filter
        * w, the image x, the output y; backward they are the gradients in the same places. */
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA = 700,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_YDESC = 717,
       CUDNN_ATTR_OPERATIONGRAPH_OPS = 801,
       CUDNN_ATTR_TENSOR_DATA_TYPE = 901,
       CUDNN_ATTR_TENSOR_DIMENSIONS = 902,
       CUDNN_ATTR_TENSOR_STRIDES = 903,
       CUDNN_ATTR_ENGINE_OPERATION_GRAPH = 1300,
       CUDNN_ATTR_ENGINE_DEVICEPROP = 1307,
       CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION = 2702,
};

enum { CUDNN_HEUR_MODE_FALLBACK = 2 }; /* the last list that PyTorch asks for */

enum { /* cudnnBackendKnobType_t */
       CUDNN_KNOB_TYPE_TILE_SIZE = 2,
       CUDNN_KNOB_TYPE_TILEK = 13,
       CUDNN_KNOB_TYPE_WORKSPACE = 25, /* 1: no workspace for partial results */
       CUDNN_KNOB_TYPE_TILE_CGA_M = 27,
       CUDNN_KNOB_TYPE_TILE_CGA_N = 28,
};

#endif
