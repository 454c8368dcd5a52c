// The demo's adapters: fitted from its models and training images, put into its server.
// Threads: one caller at a time.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "client/client.h"
#include "models/adapter_file.h"
#include "models/encoder.h"
#include "trainer/data/dataset.h"

namespace lightcone::cli {

// An item adapter from `old_model` to `new_model` (docs/adapters.md): every training image is a pair, with its label.
absl::StatusOr<AdapterFile> FitItemAdapter(const Encoder& old_model, const Encoder& new_model, const Dataset& dataset,
                                           uint64_t seed);

// Puts it between two generations of `collection`.
absl::Status PutAdapter(client::Client& client, const std::string& collection, uint32_t from, uint32_t to,
                        const AdapterFile& file);

}  // namespace lightcone::cli
