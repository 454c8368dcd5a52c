// Vectors and their names. A name stands for a generation: none for the active one, "gen-2" for generation 2, and any
// other for the newest generation whose manifest has it as "model" or "name".
// Threads: GenerationNames belongs to one call; the functions are pure.
#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "server/engine/api/engine.h"
#include "server/rest/fields.h"
#include "server/rest/point_text.h"
#include "server/rest/rest_call.h"

namespace lightcone::server {

// Finds generations by the names of vectors, each name once.
class GenerationNames {
 public:
  GenerationNames(Engine* engine, std::string collection) : engine_(engine), collection_(std::move(collection)) {}
  // 0: the active one. NOT_FOUND lists the generations.
  absl::StatusOr<uint32_t> Find(const std::string& name, std::string_view field);

 private:
  absl::StatusOr<uint32_t> LookUp(const std::string& name, std::string_view field);

  Engine* const engine_;
  const std::string collection_;
  std::map<std::string, uint32_t> found_;
};

// A vector, or a text that the generation's encoder embeds.
struct NamedVector {
  std::string name;
  std::variant<std::vector<float>, RawInput> content;
};

// [numbers], {"name": [numbers]} or {"text": "...", "model": "..."}. UNIMPLEMENTED for sparse vectors, lists of vectors
// and more than one name.
absl::StatusOr<NamedVector> NamedVectorFrom(const nlohmann::json& value, const std::string& field);
absl::StatusOr<std::vector<float>> VectorFrom(const nlohmann::json& value, const std::string& field);

// "with_payload" (true, false, an array of paths, include or exclude) and "with_vector" (true, false, an array with one
// name), which Qdrant also calls "with_vectors".
absl::StatusOr<PointParts> PointPartsOf(const Fields& body, bool payload_by_default);

// Sets the generation that `vector_name` stands for. NOT_FOUND lists the generations.
absl::Status FindVectorGeneration(const RestCall& call, PointParts* parts);

}  // namespace lightcone::server
