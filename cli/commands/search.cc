#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "base/status.h"
#include "cli/arguments.h"
#include "cli/command_table.h"
#include "cli/commands/search_profile.h"
#include "cli/formats/ids.h"
#include "cli/formats/rows.h"
#include "cli/json/message_json.h"
#include "cli/table.h"

namespace lightcone::cli {
namespace {

constexpr uint32_t kHitsDefault = 10;

struct SearchFlags {
  std::string collection, vector, vectors, image, text, item, made_by, filter, format = "auto", adapter_mode = "all",
                                                                               canary_key;
  std::vector<uint32_t> evaluate_generations;
  std::string group_by;
  uint32_t groups = 10, group_size = 3;
  std::optional<uint32_t> k;
  uint32_t generation = 0, offset = 0, ef = 0, nprobe = 0, refresh_top = 0, scale_generation = 0;
  std::vector<std::string> older_vectors;
  uint64_t wait_for_sequence = 0;
  std::optional<double> target_recall, score_threshold, distance_max, relevance_min;
  PayloadFlags fields;
  bool embed_older = false, exact = false, with_payload = false, with_vector = false, profile = false;
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
  const int ways =
      !flags.vector.empty() + !flags.vectors.empty() + !flags.image.empty() + !flags.text.empty() + !flags.item.empty();
  if (ways != 1) {
    return InvalidArgument("one of --vector, --vectors, --image, --text and --item must say what to search for");
  }
  if (!flags.vectors.empty()) return AddQueriesOfFile(flags, request);
  v1::Query* query = request->add_queries();
  if (!flags.image.empty()) return SetImage(flags.image, query->mutable_input());
  if (!flags.text.empty()) {
    query->mutable_input()->set_text(flags.text);
    return absl::OkStatus();
  }
  if (!flags.item.empty()) {
    LC_ASSIGN_OR_RETURN(*query->mutable_item(), ParseItemId(flags.item));
    return absl::OkStatus();
  }
  LC_ASSIGN_OR_RETURN(const std::vector<float> values, ParseVectorText(flags.vector));
  client::SetVector(values.data(), static_cast<int64_t>(values.size()), query->mutable_vector());
  return absl::OkStatus();
}

// Adds the vectors of a file, which are the queries as the generation embeds them, in their order. `given`: "GEN:FILE".
absl::Status AddOlderVectors(const SearchFlags& flags, const std::string& given, v1::SearchRequest* request) {
  const size_t colon = given.find(':');
  uint32_t generation = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(given.substr(0, colon), &generation) || generation == 0) {
    return InvalidField("--older-vectors", StrCat("'", given, "'"), "GENERATION:FILE, such as 1:old.npy");
  }
  if (flags.vector.empty() && flags.vectors.empty()) {
    return InvalidField("--older-vectors", StrCat("'", given, "'"), "beside --vector or --vectors");
  }
  const std::string path = given.substr(colon + 1);
  LC_ASSIGN_OR_RETURN(const RowFormat format, RowFormatOf("auto", path));
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<RowReader> reader, OpenRows(path, format));
  Row row;
  int count = 0;
  for (;; ++count) {
    LC_ASSIGN_OR_RETURN(const bool more, reader->Next(&row));
    if (!more || count == request->queries_size()) {
      if (!more && count == request->queries_size()) return absl::OkStatus();
      return InvalidField("--older-vectors", StrCat("'", path, "' with ", more ? "more than " : "", count, " vectors"),
                          StrCat(request->queries_size(), ", one a query"));
    }
    v1::GenerationVector* to = request->mutable_queries(count)->add_older_vectors();
    to->set_generation(generation);
    client::SetVector(row.vector.data(), static_cast<int64_t>(row.vector.size()), to->mutable_vector());
  }
}

absl::StatusOr<v1::AdapterMode> AdapterModeOf(const std::string& text) {
  if (text == "all") return v1::ADAPTER_MODE_UNSPECIFIED;
  if (text == "none") return v1::ADAPTER_MODE_NONE;
  if (text == "query") return v1::ADAPTER_MODE_QUERY;
  if (text == "item") return v1::ADAPTER_MODE_ITEM;
  return InvalidField("--adapter-mode", StrCat("'", text, "'"), "all, none, query, item");
}

OrderedJson AnswerJson(const v1::SearchResponse& response, bool with_payload, bool grouped) {
  OrderedJson json;
  json["results"] = OrderedJson::array();
  for (const v1::QueryResult& result : response.results()) {
    OrderedJson one;
    if (result.has_error()) {
      one["error"] = {{"code", absl::StatusCodeToString(client::StatusOf(result.error()).code())},
                      {"message", result.error().message()}};
    } else {
      const auto hits = [with_payload](const auto& of) {
        OrderedJson all = OrderedJson::array();
        for (const v1::Hit& hit : of.hits()) all.push_back(HitJson(hit, with_payload));
        return all;
      };
      if (!grouped) one["hits"] = hits(result);
      if (grouped) one["groups"] = OrderedJson::array();
      for (const v1::HitGroup& group : result.groups()) {
        one["groups"].push_back({{"value", FilterValueJson(group.value())}, {"hits", hits(group)}});
      }
    }
    json["results"].push_back(std::move(one));
  }
  json.update(
      FieldsJson(response, {"serving_generation", "canary", "out_of_reach", "partial", "reach_overridden", "sequence",
                            "older_error", "warnings", "scale_generation?", "unscaled_generations"}));
  if (response.bounds_size() > 0) json["bounds"] = ListJson(response.bounds(), {"generation", "fused", "distance_max"});
  if (response.has_refresh()) {
    json["refresh"] = FieldsJson(response.refresh(), {"candidates", "refreshed", "without_input", "late", "over_budget",
                                                      "failed", "changed", "error"});
  }
  if (response.has_profile()) json["profile"] = ProfileJson(response.profile());
  return json;
}

std::string HitsText(const google::protobuf::RepeatedPtrField<v1::Hit>& hits, bool with_payload) {
  // A calibration orders hits by scores that are no plain distances.
  const bool calibrated =
      std::any_of(hits.begin(), hits.end(), [](const v1::Hit& hit) { return hit.score() != -hit.distance(); });
  std::vector<std::string> head = {"rank", "id", "distance", "generation", "uncertainty"};
  if (calibrated) head.push_back("score");
  const auto any = [&hits](auto has) { return std::any_of(hits.begin(), hits.end(), has); };
  const bool relevance = any([](const v1::Hit& hit) { return hit.has_relevance(); });
  const bool scaled = any([](const v1::Hit& hit) { return hit.has_scaled_distance(); });
  if (relevance) head.push_back("relevance");
  if (scaled) head.push_back("scaled distance");
  if (with_payload) head.push_back("payload");
  Table table(std::move(head));
  for (int rank = 0; rank < hits.size(); ++rank) {
    const v1::Hit& hit = hits[rank];
    std::vector<std::string> row = {StrCat(rank + 1), ItemIdText(hit.id()), Number(hit.distance()),
                                    StrCat(hit.generation()), Number(hit.uncertainty())};
    if (calibrated) row.push_back(Number(hit.score()));
    if (relevance) row.push_back(hit.has_relevance() ? Number(hit.relevance()) : "");
    if (scaled) row.push_back(hit.has_scaled_distance() ? Number(hit.scaled_distance()) : "");
    if (with_payload) row.push_back(hit.payload_json().empty() ? "{}" : hit.payload_json());
    table.Add(std::move(row));
  }
  return table.empty() ? "no hits\n" : table.Text();
}

std::string RefreshText(const v1::SearchRefresh& refresh) {
  std::string text = StrCat("embedded anew: ", refresh.refreshed(), " of ", refresh.candidates(), " older candidates");
  for (const auto& [count, why] :
       {std::pair(refresh.without_input(), "without a stored input"), std::pair(refresh.late(), "out of time"),
        std::pair(refresh.over_budget(), "over the server's budget"), std::pair(refresh.failed(), "failed"),
        std::pair(refresh.changed(), "changed meanwhile")}) {
    if (count > 0) text += StrCat(", ", count, " ", why);
  }
  return text + (refresh.error().empty() ? "\n" : StrCat("; first error: ", refresh.error(), "\n"));
}

std::string AnswerText(const v1::SearchResponse& response, bool with_payload, bool grouped) {
  std::string text;
  for (int i = 0; i < response.results_size(); ++i) {
    const v1::QueryResult& result = response.results(i);
    if (response.results_size() > 1) text += StrCat(i > 0 ? "\n" : "", "query ", i, "\n");
    if (result.has_error()) {
      text += StrCat("error: ", result.error().message(), "\n");
      continue;
    }
    if (!grouped) text += HitsText(result.hits(), with_payload);
    if (grouped && result.groups().empty()) text += "no groups\n";
    for (const v1::HitGroup& group : result.groups()) {
      const OrderedJson value = FilterValueJson(group.value());
      text += StrCat("group ", value.is_string() ? value.get<std::string>() : value.dump(), "\n");
      text += HitsText(group.hits(), with_payload);
    }
  }
  if (response.out_of_reach() > 0) {
    text += StrCat(Grouped(response.out_of_reach()), " items are out of reach of generation ",
                   response.serving_generation(), "\n");
  }
  if (response.canary()) text += StrCat("served by the canary, generation ", response.serving_generation(), "\n");
  if (response.reach_overridden()) text += "reach was overridden for evaluation\n";
  if (response.partial()) text += "partial: not everything was seen\n";
  if (!response.older_error().empty()) text += StrCat("not ranked by both: ", response.older_error(), "\n");
  for (const std::string& warning : response.warnings()) text += StrCat("warning: ", warning, "\n");
  for (const auto& bound : response.bounds()) {
    text += StrCat("hits of generation ", bound.generation(), bound.fused() ? ", ranked by two vectors" : "",
                   ": distance at most ", Number(bound.distance_max()), ", by the bound on the scale of generation ",
                   response.scale_generation(), "\n");
  }
  for (const uint32_t generation : response.unscaled_generations()) {
    text += StrCat("hits of generation ", generation, " have no distance on the scale of generation ",
                   response.scale_generation(), ": no validation measured them\n");
  }
  if (response.has_refresh()) text += RefreshText(response.refresh());
  if (response.has_profile()) text += StrCat("\n", ProfileText(response.profile()));
  return text;
}

absl::Status RunSearch(Context& context, const SearchFlags& flags) {
  auto request = RequestOf<v1::SearchRequest>(flags);
  for (const uint32_t generation : flags.evaluate_generations) request.add_evaluate_generations(generation);
  if (!flags.group_by.empty()) {
    request.mutable_group_by()->set_field(flags.group_by);
    request.mutable_group_by()->set_groups(flags.groups);
    request.mutable_group_by()->set_group_size(flags.group_size);
  } else if (!flags.k) {
    request.set_k(kHitsDefault);
  }
  LC_ASSIGN_OR_RETURN(const v1::AdapterMode adapter_mode, AdapterModeOf(flags.adapter_mode));
  request.set_adapter_mode(adapter_mode);
  if (!flags.filter.empty()) LC_RETURN_IF_ERROR(SetFilter(flags.filter, request.mutable_filter()));
  if (!flags.fields.include.empty() || !flags.fields.exclude.empty()) {
    SetPayloadSelection(flags.fields, request.mutable_payload());
  }
  request.set_model(flags.made_by);
  LC_RETURN_IF_ERROR(AddQueries(flags, &request));
  for (const std::string& given : flags.older_vectors) LC_RETURN_IF_ERROR(AddOlderVectors(flags, given, &request));
  LC_ASSIGN_OR_RETURN(const auto response, context.Call(&client::Client::Search, request));
  if (context.json) {
    context.PrintJson(AnswerJson(response, flags.with_payload, !flags.group_by.empty()));
  } else {
    context.Print(AnswerText(response, flags.with_payload, !flags.group_by.empty()));
  }
  // The command fails where its one query fails. An answer to several queries shows which of them failed.
  if (response.results_size() == 1 && response.results(0).has_error()) {
    return client::StatusOf(response.results(0).error());
  }
  return absl::OkStatus();
}

void AddSearchFlags(CLI::App* app, SearchFlags* flags) {
  AddCollectionArgument(app, &flags->collection);
  app->add_option("--vector", flags->vector,
                  "Query vector, as the encoder gave it before the clip: 0.1,0.2,... or a JSON array");
  app->add_option("--vectors", flags->vectors, "File of query vectors: npy, fvecs, bvecs or jsonl");
  app->add_option("--older-vectors", flags->older_vectors,
                  "GENERATION:FILE of the same queries as an older generation embeds them: items of that generation "
                  "are ranked by both");
  app->add_option("--format", flags->format,
                  "Format of the file given with --vectors: auto (by extension), npy, fvecs, bvecs or jsonl")
      ->capture_default_str();
  app->add_option("--image", flags->image, "PNG, JPEG or WebP file to search by, which the server embeds");
  app->add_option("--text", flags->text, "Text to search by, which the server embeds");
  app->add_option("--made-by", flags->made_by,
                  "Model that made the query vectors; another one than the generation's is refused");
  app->add_option("--item", flags->item, "Id of a stored item to search by");
  app->add_option("-k,--k", flags->k, "Number of hits for each query; default: 10");
  app->add_option("--offset", flags->offset, "Nearest hits to leave out")->capture_default_str();
  app->add_option("--score-threshold", flags->score_threshold, "Least score of a hit");
  app->add_option("--distance-max", flags->distance_max, "Greatest distance of a hit");
  app->add_option("--relevance-min", flags->relevance_min, "Least chance that a hit is relevant, 0 to 1");
  app->add_option("--scale-generation", flags->scale_generation,
                  "Generation in whose distances --distance-max and --score-threshold are given; 0: the collection's "
                  "setting");
  AddFilter(app, &flags->filter);
  app->add_option("--group-by", flags->group_by, "PATH of a payload field: shows groups of hits that share its value");
  app->add_option("--groups", flags->groups, "Most groups, with --group-by")->capture_default_str();
  app->add_option("--group-size", flags->group_size, "Most hits of a group, with --group-by")->capture_default_str();
  app->add_option("--generation", flags->generation, "Generation that embedded the query vector; 0: the active one");
  app->add_flag("--embed-older", flags->embed_older,
                "With --text or --image: the server embeds the query by older generations, too, and ranks their items "
                "by both");
  app->add_option("--refresh-top", flags->refresh_top,
                  "Embeds those of the first so many candidates anew that older generations embedded; 0: none");
  app->add_flag("--exact", flags->exact, "Scan every row instead of walking the graph");
  app->add_option("--ef", flags->ef, "Length of the candidate queue of a graph walk; 0: the collection's setting");
  app->add_option("--nprobe", flags->nprobe, "Number of lists to read of an ivf segment; 0: the collection's setting");
  app->add_option("--target-recall", flags->target_recall,
                  "Share of the nearest items to find: sets ef and nprobe to what was measured to reach it");
  app->add_flag("--payload", flags->with_payload, "Show payloads");
  AddPayloadSelection(app, &flags->fields);
  app->add_flag("--with-vector", flags->with_vector, "Read vectors (shown with --json)");
  app->add_flag("--profile", flags->profile, "Show how the search read each segment");
  app->add_option("--wait-for", flags->wait_for_sequence, "Sequence of a write that the search must see");
  app->add_option("--evaluate-generations", flags->evaluate_generations,
                  "Generations whose embeddings alone are compared, even out of reach; for evaluation")
      ->delimiter(',');
  app->add_option("--adapter-mode", flags->adapter_mode, "Adapters that the search may use: all, none, query or item")
      ->capture_default_str();
  app->add_option("--canary-key", flags->canary_key,
                  "Key of the user: decides whether a canary serves the search (raw inputs and items)");
}

}  // namespace

void AddSearch(CLI::App& root, Context& context) {
  AddCommands<SearchFlags>(root, context, {{"search", "Find the nearest items", &RunSearch, &AddSearchFlags}});
}

}  // namespace lightcone::cli
