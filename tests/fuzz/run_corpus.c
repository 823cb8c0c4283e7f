/* SPDX-License-Identifier: MIT */
/* Gives every file of the folders named as arguments to a fuzz target; says how many. */
#include <dirent.h>
#include <stdio.h>

#include "base/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static int run_folder(const char *folder)
{
    int count = 0;
    DIR *entries = opendir(folder);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        char path[4096];
        plm_file file = {0};
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] == '.' || plm__file_map(path, &file) != PLM_OK)
            continue;
        LLVMFuzzerTestOneInput(file.bytes, file.byte_count);
        plm__file_unmap(&file);
        count++;
    }
    if (entries)
        closedir(entries);
    return count;
}

int main(int argument_count, char **arguments)
{
    int count = 0;
    for (int i = 1; i < argument_count; i++)
        count += run_folder(arguments[i]);
    printf("%d inputs\n", count);
    return count > 0 && plm__host_stats_get().live_count == 0 ? 0 : 1;
}
