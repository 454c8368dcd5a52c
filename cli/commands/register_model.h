// A trained model's folder as what registers it, with the adapter that belongs to it.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "lightcone/v1/generations.pb.h"

namespace lightcone::cli {

// Manifest and encoder of the folder that `lightcone train` wrote; `encoder` names another file, if not empty. Errors
// of the files. Threads: safe.
absl::Status SetModelFolder(const std::string& folder, const std::string& encoder, v1::RegisterRequest* request);

// Where a training by a method that ends with an adapter leaves it, and what it was fitted by
// (docs/reference/formats/models.md).
std::string ModelAdapterPath(const std::string& folder);
std::string ModelAdapterSealPath(const std::string& folder);

struct ModelAdapter {
  std::string file;   // file to put; empty: no adapter is put
  uint32_t from = 0;  // generation whose items it carries to the model
  std::string note;   // reason why no adapter is put, for people; may be empty
};

// The generation that holds the encoder of that checksum, 0: none. `parent`, or, at 0, the one that serves, else one
// with items, else the newest. No draft, no retired one, and, unless `below` is 0, only ones older than that. Threads:
// safe.
uint32_t ChooseOldGeneration(const google::protobuf::RepeatedPtrField<v1::GenerationInfo>& generations,
                             uint32_t encoder_crc32c, uint32_t parent, uint32_t below);

// The adapter in a model's folder and the generation of the collection that holds its old model, chosen as above, if it
// was fitted between the two. Errors of the manifest, of the adapter's file and of the call. Threads: safe.
absl::StatusOr<ModelAdapter> FindModelAdapter(client::Client& client, const std::string& collection,
                                              const std::string& folder, uint32_t parent, uint32_t below);

}  // namespace lightcone::cli
