// A gallery of a server for benchmarks and demos: its collection and the generation that serves it.
// Threads: one caller at a time.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "client/client.h"

namespace lightcone::cli {

// Creates a collection of a geometry by its metric's name; lorentz: with curvature -K.
absl::Status CreateGallery(client::Client& client, const std::string& collection, const std::string& metric,
                           double curvature);

// `force_reason`: why the generation is activated whatever its validation says; empty: it is not forced.
absl::Status ActivateModel(client::Client& client, const std::string& collection, uint32_t generation,
                           const std::string& force_reason = "");

}  // namespace lightcone::cli
