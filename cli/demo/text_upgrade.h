// The steps of an upgrade between two external models of one cosine collection, each a call to the server.
// Threads: one caller at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/demo/text_data.h"
#include "client/client.h"

namespace lightcone::cli {

inline constexpr uint32_t kOldGeneration = 1, kNewGeneration = 2;

// A cosine collection. `scanned`: without a graph.
absl::Status CreateTextCollection(client::Client& client, const std::string& collection, bool scanned);

// Registers a model whose vectors the caller brings; gives the number of its generation.
absl::StatusOr<uint32_t> RegisterTextModel(client::Client& client, const std::string& collection,
                                           const std::string& name, int dimension, bool expects_adapter);

// Has the server fit an item adapter from the old to the new generation, and waits for it. Errors of the job.
absl::StatusOr<v1::AdapterInfo> FitTextAdapter(client::Client& client, const std::string& collection, uint64_t seed);

// Puts these queries as probes, with vectors of both generations and their labels.
absl::Status PutTextProbes(client::Client& client, const std::string& collection, const TextData& data,
                           std::span<const int64_t> queries);

// What the gate says of the new generation.
struct UpgradeOutcome {
  bool passed = false, both_passes = false;
  std::string way = "none";  // way of searches by the new vector
  std::string summary;
  std::string force_reason;  // reason for an activation in spite of the gate; empty where it passed
};
absl::StatusOr<UpgradeOutcome> ValidateTexts(client::Client& client, const std::string& collection);

}  // namespace lightcone::cli
