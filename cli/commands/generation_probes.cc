// lightcone generation probes put | list | drop
#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "base/files.h"
#include "base/npy.h"
#include "base/status.h"
#include "cli/arguments.h"
#include "cli/command_table.h"
#include "cli/formats/probe_lines.h"
#include "cli/json/rollout_json.h"

namespace lightcone::cli {
namespace {

struct GenerationProbesFlags {
  std::string collection, name, file, label_field, request_id;
  std::vector<std::string> vectors;
};

// "2=new.npy": row i is the vector of probe i by generation 2.
absl::Status AddVectors(const std::string& text, v1::PutProbesRequest* request) {
  const size_t equals = text.find('=');
  uint32_t generation = 0;
  if (equals == std::string::npos || !absl::SimpleAtoi(text.substr(0, equals), &generation) || generation == 0) {
    return InvalidField("--vectors", StrCat("'", text, "'"), "GENERATION=FILE.npy");
  }
  const std::string path = text.substr(equals + 1);
  LC_ASSIGN_OR_RETURN(const NpyArray array, ReadNpy(path));
  if (array.shape.size() != 2 || array.dim(0) != request->probes_size()) {
    return InvalidField("--vectors", StrCat(path, " of shape ", NpyShapeText(array.shape)),
                        StrCat("one row for each of the ", request->probes_size(), " probes"));
  }
  LC_ASSIGN_OR_RETURN(const std::vector<float> values, NpyFloats(array, path));
  for (int i = 0; i < request->probes_size(); ++i) {
    v1::ProbeVector* to = request->mutable_probes(i)->add_vectors();
    to->set_generation(generation);
    client::SetVector(values.data() + i * array.dim(1), array.dim(1), to->mutable_vector());
  }
  return absl::OkStatus();
}

absl::Status PutProbes(Context& context, const GenerationProbesFlags& flags) {
  auto request = RequestOf<v1::PutProbesRequest>(flags);
  LC_ASSIGN_OR_RETURN(const std::string text, ReadFile(flags.file));
  std::istringstream lines(text);
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string at = StrCat(flags.file, ", line ", number);
    absl::StatusOr<ProbeLine> probe = ParseProbeLine(line);
    if (!probe.ok()) return Annotate(probe.status(), at);
    if (!probe->image.empty()) {
      // Beside the file that names it, unless it is absolute.
      const auto path = std::filesystem::path(flags.file).parent_path() / probe->image;
      LC_RETURN_IF_ERROR(Annotate(SetImage(path.string(), probe->probe.mutable_input()), at));
    }
    *request.add_probes() = std::move(probe->probe);
  }
  for (const std::string& vectors : flags.vectors) LC_RETURN_IF_ERROR(AddVectors(vectors, &request));
  LC_ASSIGN_OR_RETURN(const auto response, context.Call(&client::Client::PutProbes, request));
  context.Show(ProbeSetJson(response.probes()), ProbeSetsTable({response.probes()}));
  return absl::OkStatus();
}

absl::Status ListProbeSets(Context& context, const GenerationProbesFlags& flags) {
  LC_ASSIGN_OR_RETURN(const auto response,
                      context.Call(&client::Client::ListProbes, RequestOf<v1::ListProbesRequest>(flags)));
  ShowAll(context, response.probes(), ProbeSetJson, ProbeSetsTable);
  return absl::OkStatus();
}

absl::Status DropProbes(Context& context, const GenerationProbesFlags& flags) {
  LC_RETURN_IF_ERROR(context.Call(&client::Client::DropProbes, RequestOf<v1::DropProbesRequest>(flags)).status());
  context.Show({{"dropped", flags.name}}, StrCat("probe set ", flags.name, " is dropped\n"));
  return absl::OkStatus();
}

void AddPutFlags(CLI::App* put, GenerationProbesFlags* flags) {
  AddCollectionArgument(put, &flags->collection);
  put->add_option("name", flags->name, "Name of the probe set")->required();
  put->add_option("file", flags->file,
                  "File with a JSON object a line: \"relevant\" (ids) or \"label\", \"vectors\" ({\"1\": [...]}) "
                  "or \"image\" (a path) or \"text\", \"item\" (an id that the probe leaves out)")
      ->required();
  put->add_option("--label-field", flags->label_field, "Payload field whose values the labels are");
  put->add_option("--vectors", flags->vectors,
                  "GENERATION=FILE.npy: vectors of the probes by a generation, a row a probe; may be repeated");
  AddRequestId(put, &flags->request_id);
}

}  // namespace

void AddGenerationProbes(CLI::App& generation, Context& context) {
  CLI::App* app = AddCommand(generation, "probes", "Put, list and drop the labelled queries that measure generations");
  app->require_subcommand(1);
  AddCommands<GenerationProbesFlags>(
      *app, context,
      {{"put", "Give a collection a probe set, or replace the one of that name", &PutProbes, &AddPutFlags},
       {"list", "List the probe sets of a collection", &ListProbeSets,
        [](CLI::App* list, GenerationProbesFlags* flags) { AddCollectionArgument(list, &flags->collection); }},
       {"drop", "Drop a probe set", &DropProbes, [](CLI::App* drop, GenerationProbesFlags* flags) {
          AddCollectionArgument(drop, &flags->collection);
          drop->add_option("name", flags->name, "Name of the probe set")->required();
          AddRequestId(drop, &flags->request_id);
        }}});
}

}  // namespace lightcone::cli
