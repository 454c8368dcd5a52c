// Filling a collection of a running server, for the benchmarks.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "client/client.h"

namespace lightcone::bench {

// A Lorentz collection with one active generation of `dimension`, embedded on the application's side. What `index`
// leaves open is the server's default.
absl::Status MakeCollection(client::Client& client, const std::string& name, int dimension,
                            const v1::IndexSettings& index = {});

// One batch of `count` items with the ids first_id ... from rows (count x dimension).
v1::UpsertRequest MakeBatch(const std::string& collection, uint64_t first_id, const float* rows, int64_t count,
                            int dimension);

// Upserts n rows under the ids first_id .. first_id + n - 1 over a stream (PROCESS durability: the load is not what is
// measured), each with the payload that `payload_of` makes of its id, if there is one.
absl::Status LoadRows(client::Client& client, const std::string& collection, std::span<const float> rows, int dimension,
                      uint64_t first_id = 0, const std::function<std::string(uint64_t id)>& payload_of = {});

}  // namespace lightcone::bench
