#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/commands/search_profile.h"
#include "cli/formats/ids.h"
#include "cli/formats/rows.h"
#include "cli/json/message_json.h"
#include "cli/table.h"

namespace lightcone::cli {
namespace {

struct SearchFlags {
  std::string collection, vector, vectors, image, item, filter, format = "auto", adapter_mode = "all", canary_key;
  std::vector<uint32_t> evaluate_generations;
  uint32_t generation = 0, k = 10, ef = 0, nprobe = 0;
  uint64_t wait_for = 0;
  std::optional<double> target_recall;
  bool exact = false, payload = false, with_vector = false, profile = false;
};

absl::Status AddQueriesOfFile(const SearchFlags& flags, v1::SearchRequest* request) {
  LC_ASSIGN_OR_RETURN(const RowFormat format, RowFormatOf(flags.format, flags.vectors));
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<RowReader> reader, OpenRows(flags.vectors, format));
  Row row;
  for (;;) {
    LC_ASSIGN_OR_RETURN(const bool more, reader->Next(&row));
    if (!more) break;
    client::SetVector(row.vector.data(), static_cast<int64_t>(row.vector.size()),
                      request->add_queries()->mutable_vector());
  }
  return absl::OkStatus();
}

absl::Status AddQueries(const SearchFlags& flags, v1::SearchRequest* request) {
  const int ways = !flags.vector.empty() + !flags.vectors.empty() + !flags.image.empty() + !flags.item.empty();
  if (ways != 1) return InvalidArgument("say what to search for: one of --vector, --vectors, --image, --item");
  if (!flags.vectors.empty()) return AddQueriesOfFile(flags, request);
  v1::Query* query = request->add_queries();
  if (!flags.image.empty()) return SetImage(flags.image, query->mutable_input());
  if (!flags.item.empty()) {
    LC_ASSIGN_OR_RETURN(*query->mutable_item(), ParseItemId(flags.item));
    return absl::OkStatus();
  }
  LC_ASSIGN_OR_RETURN(const std::vector<float> values, ParseVectorText(flags.vector));
  client::SetVector(values.data(), static_cast<int64_t>(values.size()), query->mutable_vector());
  return absl::OkStatus();
}

absl::StatusOr<v1::AdapterMode> AdapterModeOf(const std::string& text) {
  if (text == "all") return v1::ADAPTER_MODE_UNSPECIFIED;
  if (text == "none") return v1::ADAPTER_MODE_NONE;
  if (text == "query") return v1::ADAPTER_MODE_QUERY;
  if (text == "item") return v1::ADAPTER_MODE_ITEM;
  return InvalidField("--adapter-mode", StrCat("'", text, "'"), "all, none, query, item");
}

OrderedJson AnswerJson(const v1::SearchResponse& response, bool with_payload) {
  OrderedJson json;
  json["results"] = OrderedJson::array();
  for (const v1::QueryResult& result : response.results()) {
    OrderedJson one;
    if (result.has_error()) {
      one["error"] = {{"code", absl::StatusCodeToString(client::StatusOf(result.error()).code())},
                      {"message", result.error().message()}};
    } else {
      one["hits"] = OrderedJson::array();
      for (const v1::Hit& hit : result.hits()) one["hits"].push_back(HitJson(hit, with_payload));
    }
    json["results"].push_back(std::move(one));
  }
  json["serving_generation"] = response.serving_generation();
  json["canary"] = response.canary();
  json["out_of_reach"] = response.out_of_reach();
  json["partial"] = response.partial();
  json["reach_overridden"] = response.reach_overridden();
  json["sequence"] = response.sequence();
  if (response.has_profile()) json["profile"] = ProfileJson(response.profile());
  return json;
}

std::string AnswerText(const v1::SearchResponse& response, bool with_payload) {
  std::string text;
  for (int i = 0; i < response.results_size(); ++i) {
    const v1::QueryResult& result = response.results(i);
    if (response.results_size() > 1) text += StrCat(i > 0 ? "\n" : "", "query ", i, "\n");
    if (result.has_error()) {
      text += StrCat("error: ", result.error().message(), "\n");
      continue;
    }
    // With a calibration in force hits stand by their scores, which are no plain distances.
    const bool calibrated = std::any_of(result.hits().begin(), result.hits().end(),
                                        [](const v1::Hit& hit) { return hit.score() != -hit.distance(); });
    std::vector<std::string> head = {"rank", "id", "distance", "generation", "uncertainty"};
    if (calibrated) head.push_back("score");
    if (with_payload) head.push_back("payload");
    Table table(std::move(head));
    for (int rank = 0; rank < result.hits_size(); ++rank) {
      const v1::Hit& hit = result.hits(rank);
      std::vector<std::string> row = {StrCat(rank + 1), ItemIdText(hit.id()), Number(hit.distance()),
                                      StrCat(hit.generation()), Number(hit.uncertainty())};
      if (calibrated) row.push_back(Number(hit.score()));
      if (with_payload) row.push_back(hit.payload_json().empty() ? "{}" : hit.payload_json());
      table.Add(std::move(row));
    }
    text += table.empty() ? "no hits\n" : table.Text();
  }
  if (response.out_of_reach() > 0) {
    text += StrCat(Grouped(response.out_of_reach()), " items are out of reach of generation ",
                   response.serving_generation(), "\n");
  }
  if (response.canary()) text += StrCat("served by the canary, generation ", response.serving_generation(), "\n");
  if (response.reach_overridden()) text += "reach was overridden for evaluation\n";
  if (response.partial()) text += "partial: the deadline was over before everything was seen\n";
  if (response.has_profile()) text += StrCat("\n", ProfileText(response.profile()));
  return text;
}

absl::Status RunSearch(Context& context, const SearchFlags& flags) {
  v1::SearchRequest request;
  request.set_collection(flags.collection);
  request.set_generation(flags.generation);
  request.set_k(flags.k);
  request.set_ef(flags.ef);
  request.set_nprobe(flags.nprobe);
  if (flags.target_recall.has_value()) request.set_target_recall(*flags.target_recall);
  request.set_exact(flags.exact);
  request.set_with_payload(flags.payload);
  request.set_with_vector(flags.with_vector);
  request.set_profile(flags.profile);
  request.set_wait_for_sequence(flags.wait_for);
  for (const uint32_t generation : flags.evaluate_generations) request.add_evaluate_generations(generation);
  LC_ASSIGN_OR_RETURN(const v1::AdapterMode adapter_mode, AdapterModeOf(flags.adapter_mode));
  request.set_adapter_mode(adapter_mode);
  request.set_canary_key(flags.canary_key);
  if (!flags.filter.empty()) LC_RETURN_IF_ERROR(SetFilter(flags.filter, request.mutable_filter()));
  LC_RETURN_IF_ERROR(AddQueries(flags, &request));
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  LC_ASSIGN_OR_RETURN(const v1::SearchResponse response, client->Search(request));
  if (context.json) {
    context.PrintJson(AnswerJson(response, flags.payload));
  } else {
    context.Print(AnswerText(response, flags.payload));
  }
  // One query that fails is a failure of the command; of several, the answer shows which.
  if (response.results_size() == 1 && response.results(0).has_error()) {
    return client::StatusOf(response.results(0).error());
  }
  return absl::OkStatus();
}

}  // namespace

void AddSearch(CLI::App& root, Context& context) {
  auto flags = std::make_shared<SearchFlags>();
  CLI::App* app = AddCommand(root, "search", "Find the nearest items");
  app->add_option("collection", flags->collection, "Collection or alias")->required();
  app->add_option("--vector", flags->vector,
                  "Query: the encoder's output before the clip, 0.1,0.2,... or a JSON array");
  app->add_option("--vectors", flags->vectors, "Queries from an npy, fvecs, bvecs or jsonl file");
  app->add_option("--format", flags->format, "Of --vectors")->capture_default_str();
  app->add_option("--image", flags->image, "Query: a PNG, JPEG or WebP file that the server embeds");
  app->add_option("--item", flags->item, "Query: more like this stored item");
  app->add_option("-k,--k", flags->k, "Hits a query")->capture_default_str();
  app->add_option("--filter", flags->filter, "For example: class = \"cat\" and year >= 2020");
  app->add_option("--generation", flags->generation, "That embedded the query; 0: the active one");
  app->add_flag("--exact", flags->exact, "Scan everything instead of walking the graph");
  app->add_option("--ef", flags->ef, "Breadth of the graph walk; 0: the collection's setting");
  app->add_option("--nprobe", flags->nprobe, "Lists read of an ivf segment; 0: the collection's setting");
  app->add_option("--target-recall", flags->target_recall,
                  "Walk as broadly as this share of the nearest needs, instead of --ef or --nprobe");
  app->add_flag("--payload", flags->payload, "Show payloads");
  app->add_flag("--with-vector", flags->with_vector, "Give vectors (with --json)");
  app->add_flag("--profile", flags->profile, "Show how the search went about it");
  app->add_option("--wait-for", flags->wait_for, "Wait until the write of this sequence is visible");
  app->add_option("--evaluate-generations", flags->evaluate_generations,
                  "For evaluation: compare with embeddings of these generations only, even out of reach")
      ->delimiter(',');
  app->add_option("--adapter-mode", flags->adapter_mode, "Adapters that may be used: all, none, query, item")
      ->capture_default_str();
  app->add_option(
      "--canary-key", flags->canary_key,
      "Of whom the search is: while there is a canary, it says whether that serves it (raw inputs and items)");
  app->callback([&context, flags] { context.Finish(RunSearch(context, *flags)); });
}

}  // namespace lightcone::cli
