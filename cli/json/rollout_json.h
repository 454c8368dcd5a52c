// Probe sets, validations and jobs as JSON for programs and as tables for people. Threads: all functions are safe.
#pragma once

#include <string>
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

OrderedJson SampleJson(const v1::SampleItemsResponse& sample);
std::string SampleTable(const v1::SampleItemsResponse& sample);

OrderedJson JobJson(const v1::JobInfo& job);
std::string JobsTable(const std::vector<v1::JobInfo>& jobs);

}  // namespace lightcone::cli
