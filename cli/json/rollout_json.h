// Probe sets, validations and jobs as JSON for programs and as tables for people. Threads: all functions are safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/json/message_json.h"
#include "lightcone/v1/generations.pb.h"
#include "lightcone/v1/jobs.pb.h"
#include "lightcone/v1/probes.pb.h"
#include "lightcone/v1/validation.pb.h"

namespace lightcone::cli {

OrderedJson ProbeSetJson(const v1::ProbeSetInfo& info);
std::string ProbeSetsTable(const std::vector<v1::ProbeSetInfo>& infos);

OrderedJson ValidationJson(const v1::Validation& validation);
// The figures of every pair and way, and what they mean.
std::string ValidationTable(const v1::Validation& validation);

// How the generation can pass by a backfill before the activation, as sentences and the command. Empty where the
// validation names no share. `embed_rate`: the flag's value; empty: workers embed.
std::string HowToPassByBackfill(const v1::Validation& validation, std::string_view collection, uint32_t generation,
                                std::string_view embed_rate);

OrderedJson SampleJson(const v1::SampleItemsResponse& sample);
std::string SampleTable(const v1::SampleItemsResponse& sample);

OrderedJson JobJson(const v1::JobInfo& job);
std::string JobsTable(const std::vector<v1::JobInfo>& jobs);

}  // namespace lightcone::cli
