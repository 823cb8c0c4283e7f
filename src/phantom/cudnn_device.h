/* SPDX-License-Identifier: MIT */
/*
 * The device as cuDNN wants to be told of it: a JSON text of 23 keys
 * (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION). Of all keys only deviceVer changes which engines are
 * listed (measured: multiprocessors, clocks, caches, name and driver change no list and no size).
 */
#ifndef PLM_PHANTOM_CUDNN_DEVICE_H
#define PLM_PHANTOM_CUDNN_DEVICE_H

struct plm_phantom_device;

enum { PLM_CUDNN_DEVICE_BYTES = 1024 }; /* the text and its NUL, with a name of 127 characters */

/* Writes the text of PLM_CUDNN_DEVICE_BYTES at most. */
void plm__cudnn_device_json(const struct plm_phantom_device *device, char *json);

#endif
