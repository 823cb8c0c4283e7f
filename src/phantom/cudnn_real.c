/* SPDX-License-Identifier: MIT */
/*
 * Finds the real cuDNN and describes the device to it. dlopen by the bare name finds the library
 * that is loaded already, so the version is always the one that PyTorch runs with; a newer cuDNN
 * first on LD_LIBRARY_PATH takes its place for PyTorch and for this file alike. Names that the
 * stand-in exports do not come back here: dlsym asks the one library.
 */
#include "phantom/cudnn_real.h"

#include "phantom/cudnn_device.h"
#include "phantom/loader.h"
#include "phantom/phantom.h"
#include "phantom/process.h"

#include <stdbool.h>
#include <string.h>

static struct plm_cudnn_real real;
static bool told; /* the library was found and told of the device; set last */

/* dlopen counts openings of a library that is loaded already: nothing is lost by asking again. */
void *plm__cudnn_function(const char *name)
{
    void *library = dlopen("libcudnn.so.9", RTLD_LAZY);
    if (!library)
        plm__phantom_stop("wanted cuDNN 9 beside PyTorch, found none (%s): install "
                          "nvidia-cudnn-cu12 or -cu13, or set torch.backends.cudnn.enabled = False",
                          dlerror());
    void *function = dlsym(library, name);
    if (!function)
        plm__phantom_stop("wanted %s in libcudnn.so.9, found none: take the cuDNN that PyTorch was "
                          "built for",
                          name);
    return function;
}

/* cuDNN before 9.2 has no such descriptor: the attempt fails and the device stays NULL. */
static plm_cudnn_descriptor describe_device(const struct plm_cudnn_real *found)
{
    char json[PLM_CUDNN_DEVICE_BYTES];
    plm__cudnn_device_json(plm__phantom_device(), json);
    plm_cudnn_descriptor device = NULL;
    if (found->create(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &device))
        return NULL;
    if (found->set(device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                   (int64_t)strlen(json), json) ||
        found->finalize(device)) {
        found->destroy(device);
        return NULL;
    }
    return device;
}

/* POSIX lets a symbol's address be taken as a function's; ISO C has no cast for it. */
static void take(void *function, const char *name)
{
    void *found = plm__cudnn_function(name);
    memcpy(function, &found, sizeof found);
}

static struct plm_cudnn_real find_library(void)
{
    struct plm_cudnn_real found = {0};
    size_t (*version)(void);
    take(&version, "cudnnGetVersion");
    take(&found.create, "cudnnBackendCreateDescriptor");
    take(&found.destroy, "cudnnBackendDestroyDescriptor");
    take(&found.finalize, "cudnnBackendFinalize");
    take(&found.set, "cudnnBackendSetAttribute");
    take(&found.get, "cudnnBackendGetAttribute");
    found.version = version();
    found.device = describe_device(&found);
    return found;
}

/* No lock is held while the library is asked: of two threads that come first, both may describe the
 * device, and the second's description is kept by nobody and harms nobody. */
const struct plm_cudnn_real *plm__cudnn_real(void)
{
    if (!__atomic_load_n(&told, __ATOMIC_ACQUIRE)) {
        struct plm_cudnn_real found = find_library();
        plm__phantom_lock();
        if (!told)
            real = found;
        __atomic_store_n(&told, true, __ATOMIC_RELEASE);
        plm__phantom_unlock();
    }
    return &real;
}
