/* SPDX-License-Identifier: MIT */
/* What bills of configs have in common in JSON. */
#include "fit/bill_json.h"

void plm__bill_model_json(plm_json_writer *json, const plm_config *config,
                          const plm_config_counts *counts, int64_t trainable)
{
    plm__json_text(json, "model", config->name);
    plm__json_text(json, "model_type", plm_config_family_text(config->family));
    plm__json_int(json, "parameter_count", counts->parameters);
    plm__json_int(json, "active_parameter_count", counts->active_parameters);
    plm__json_int(json, "trainable_parameter_count", trainable);
    plm__json_int(json, "buffer_count", counts->buffers);
    plm__json_begin_object(json, "parts");
    for (int part = 0; part < PLM_WEIGHT_PART_COUNT; part++)
        if (counts->parts[part] > 0)
            plm__json_int(json, plm_weight_part_text((plm_weight_part)part), counts->parts[part]);
    plm__json_end(json);
}

void plm__bill_list_begin(plm_json_writer *json, int64_t count)
{
    if (count <= 1)
        return;
    plm__json_begin_object(json, NULL);
    plm__json_begin_array(json, "bills");
}

plm_status plm__bill_list_finish(plm_json_writer *json, int64_t count, char **line)
{
    if (count > 1) {
        plm__json_end(json);
        plm__json_end(json);
    }
    return plm__json_finish(json, line);
}
