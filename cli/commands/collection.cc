#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "cli/command_table.h"
#include "cli/json/message_json.h"
#include "cli/table.h"
#include "server/options/index_settings.h"
#include "server/options/strict_mode.h"

namespace lightcone::cli {
namespace {

struct CollectionFlags {
  std::string name, alias, request_id;
  std::string geometry = "lorentz";
  double curvature = 0;
  v1::IndexSettings index;
  std::map<std::string, std::string> index_names;  // Values of the flags that take a name, by their setting.
  bool remove = false, yes = false, wait = false;
  std::optional<bool> require_generation;
  std::optional<uint64_t> default_ttl_ms;
  std::string foreign_vectors;
  std::optional<uint32_t> scale_generation;
  v1::StrictMode strict_mode;
  std::vector<std::string> payload_fields, drop;
};

// GEOMETRY_LORENTZ for "lorentz"; all but the unspecified one are allowed. `last`: the last enumerator.
template <typename Enum>
absl::StatusOr<Enum> ParseEnum(std::string_view flag, std::string_view text, Enum last) {
  std::string all;
  for (int i = 1; i <= static_cast<int>(last); ++i) {
    const std::string name = EnumName(static_cast<Enum>(i));
    if (name == text) return static_cast<Enum>(i);
    all += StrCat(all.empty() ? "" : ", ", name);
  }
  return InvalidField(flag, StrCat("'", text, "'"), all);
}

// Sets what --foreign-vectors names, if it is given.
template <typename Request>
absl::Status SetForeignVectors(const CollectionFlags& flags, Request* request) {
  if (flags.foreign_vectors.empty()) return absl::OkStatus();
  LC_ASSIGN_OR_RETURN(const auto value,
                      ParseEnum("--foreign-vectors", flags.foreign_vectors, v1::FOREIGN_VECTORS_IGNORE));
  request->set_foreign_vectors(value);
  return absl::OkStatus();
}

// Sets what the flags of strict mode give, if any is given.
template <typename Request>
void SetStrictMode(const CollectionFlags& flags, Request* request) {
  if (flags.strict_mode.ByteSizeLong() > 0) *request->mutable_strict_mode() = flags.strict_mode;
}

// "--strict-mode" for "enabled", "--strict-k-max" for "k_max".
std::string StrictFlag(std::string_view member) {
  std::string flag = StrCat("--strict-", member == "enabled" ? "mode" : member);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

std::string StrictText(const v1::StrictMode& strict) {
  std::string text = StrCat("\nstrict mode is ", strict.enabled() ? "on" : "off");
  const auto* reflection = strict.GetReflection();
  server::ForEachStrictMember([&]<typename T>(const char* name, std::optional<T> server::StrictMode::*, const char*) {
    const auto* field = v1::StrictMode::descriptor()->FindFieldByName(name);
    if (field->number() == v1::StrictMode::kEnabledFieldNumber || !reflection->HasField(strict, field)) return;
    if constexpr (std::is_same_v<T, bool>) {
      text += StrCat("; ", name, " ", reflection->GetBool(strict, field) ? "true" : "false");
    } else {
      text += StrCat("; ", name, " ", reflection->GetUInt32(strict, field));
    }
  });
  return text + "\n";
}

std::string AlarmsText(const v1::CollectionInfo& info) {
  std::string text;
  for (const auto& watched : info.model_watch()) {
    for (const bool rows : {true, false}) {
      const auto& stream = rows ? watched.rows() : watched.queries();
      if (stream.alarms().empty()) continue;
      text += StrCat("\n", rows ? "upserted vectors" : "queries", " may not come from the model of generation ",
                     watched.generation(), "; odd: ", absl::StrJoin(stream.alarms(), ", "), "; ",
                     Grouped(stream.foreign()), " odd vectors so far\n");
    }
  }
  return text;
}

// Adds the fields of texts PATH=TYPE.
absl::Status AddPayloadFields(const std::vector<std::string>& texts, const std::string& flag,
                              google::protobuf::RepeatedPtrField<v1::PayloadField>* fields) {
  for (const std::string& text : texts) {
    const size_t at = text.rfind('=');
    v1::PayloadField* field = fields->Add();
    field->set_path(text.substr(0, at));
    for (int i = v1::PayloadType_MIN + 1; i <= v1::PayloadType_MAX && at != std::string::npos; ++i) {
      const auto type = static_cast<v1::PayloadType>(i);
      if (EnumName(type) == text.substr(at + 1)) field->set_type(type);
    }
    if (field->type() == v1::PAYLOAD_TYPE_UNSPECIFIED) {
      return InvalidField(flag, StrCat("'", text, "'"),
                          "PATH=TYPE with a type of keyword, integer, float, boolean, time, text, geo");
    }
  }
  return absl::OkStatus();
}

const google::protobuf::FieldDescriptor* IndexField(const char* setting) {
  return v1::IndexSettings::descriptor()->FindFieldByName(setting);
}

std::string IndexFlag(std::string_view setting) {
  if (setting == "kind") return "--index";
  std::string flag = StrCat("--", setting);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

absl::Status SetIndex(const CollectionFlags& flags, v1::IndexSettings* index) {
  *index = flags.index;
  absl::Status status;
  ForEachIndexSetting([&]<typename T>(const IndexSetting<T>& one) {
    if constexpr (std::is_enum_v<T>) {
      const auto text = flags.index_names.find(one.name);
      if (text == flags.index_names.end() || text->second.empty()) return;
      const std::optional<T> value = ParseSettingName<T>(text->second);
      if (!value) {
        status.Update(InvalidField(IndexFlag(one.name), StrCat("'", text->second, "'"), AllSettingNames<T>()));
        return;
      }
      index->GetReflection()->SetEnumValue(index, IndexField(one.name), static_cast<int>(*value) + 1);
    }
  });
  return status;
}

void ShowCollection(const Context& context, const v1::CollectionInfo& info, std::string_view did) {
  if (context.json) return context.PrintJson(CollectionJson(info));
  context.Print(StrCat(did, CollectionsTable({info})));
  if (!info.index_choice().empty()) context.Print(StrCat("\nchosen: ", info.index_choice(), "\n"));
  if (!info.index_error().empty()) context.Print(StrCat("\nindex builds fail: ", info.index_error(), "\n"));
  if (info.require_generation()) context.Print("\nupserts of vectors must name their generation\n");
  if (info.default_ttl_ms() > 0) {
    context.Print(StrCat("\nitems expire after ", static_cast<double>(info.default_ttl_ms()) / 1'000,
                         " s where an upsert says nothing\n"));
  }
  if (info.scale_generation() > 0) {
    context.Print(StrCat("\nbounds of searches are in the distances of generation ", info.scale_generation(), "\n"));
  }
  if (info.has_strict_mode()) context.Print(StrictText(info.strict_mode()));
  context.Print(AlarmsText(info));
  if (info.segments_size() > 0) context.Print(StrCat("\n", SegmentsTable(info)));
  if (info.payload_indexes_size() > 0) context.Print(StrCat("\n", PayloadIndexesTable(info)));
}

absl::Status CreateCollection(Context& context, const CollectionFlags& flags) {
  auto request = RequestOf<v1::CreateRequest>(flags);
  LC_ASSIGN_OR_RETURN(const v1::Geometry geometry, ParseEnum("--geometry", flags.geometry, v1::GEOMETRY_EUCLIDEAN));
  request.set_geometry(geometry);
  LC_RETURN_IF_ERROR(SetForeignVectors(flags, &request));
  SetStrictMode(flags, &request);
  request.set_curvature(flags.curvature);
  LC_RETURN_IF_ERROR(SetIndex(flags, request.mutable_index()));
  LC_RETURN_IF_ERROR(AddPayloadFields(flags.payload_fields, "--payload-index", request.mutable_payload_fields()));
  LC_ASSIGN_OR_RETURN(const auto response, context.Call(&client::Client::CreateCollection, request));
  ShowCollection(context, response.collection(), "");
  return absl::OkStatus();
}

absl::Status ListCollections(Context& context, const CollectionFlags&) {
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  LC_ASSIGN_OR_RETURN(const std::vector<v1::CollectionInfo> infos, client->AllCollections());
  if (infos.empty() && !context.json) {
    context.Print("no collections; make one with 'lightcone collection create NAME'\n");
  } else {
    ShowAll(context, infos, CollectionJson, CollectionsTable);
  }
  return absl::OkStatus();
}

absl::Status GetCollection(Context& context, const CollectionFlags& flags) {
  LC_ASSIGN_OR_RETURN(const auto response,
                      context.Call(&client::Client::GetCollection, RequestOf<v1::CollectionsGetRequest>(flags)));
  ShowCollection(context, response.collection(), "");
  return absl::OkStatus();
}

absl::Status DropCollection(Context& context, const CollectionFlags& flags) {
  if (!flags.yes) {
    return InvalidArgument(
        StrCat("this removes collection '", flags.name, "' and everything in it; add --yes to do so"));
  }
  LC_RETURN_IF_ERROR(context.Call(&client::Client::DropCollection, RequestOf<v1::DropRequest>(flags)).status());
  context.Show({{"dropped", flags.name}}, StrCat("dropped collection '", flags.name, "'\n"));
  return absl::OkStatus();
}

absl::Status SetAlias(Context& context, const CollectionFlags& flags) {
  if (flags.remove == !flags.name.empty()) {
    return InvalidArgument("name the collection that the alias is to point at, or --remove the alias");
  }
  v1::SetAliasRequest request;
  request.set_request_id(flags.request_id);
  request.set_alias(flags.alias);
  request.set_collection(flags.name);
  LC_RETURN_IF_ERROR(context.Call(&client::Client::SetAlias, request).status());
  context.Show({{"alias", flags.alias}, {"collection", flags.name}},
               flags.remove ? StrCat("removed alias '", flags.alias, "'\n")
                            : StrCat("alias '", flags.alias, "' points at collection '", flags.name, "'\n"));
  return absl::OkStatus();
}

client::CallOptions OptionsOf(const Context& context, const CollectionFlags& flags) {
  return flags.wait ? context.Waiting() : client::CallOptions();
}

absl::Status Rebuild(Context& context, const CollectionFlags& flags) {
  auto request = RequestOf<v1::RebuildRequest>(flags);
  request.set_collection(flags.name);
  LC_RETURN_IF_ERROR(SetIndex(flags, request.mutable_index()));
  LC_ASSIGN_OR_RETURN(const auto response,
                      context.Call(&client::Client::RebuildCollection, request, OptionsOf(context, flags)));
  ShowCollection(context, response.collection(), flags.wait ? "rebuilt\n" : "rebuilding in the background\n");
  return absl::OkStatus();
}

absl::Status Update(Context& context, const CollectionFlags& flags) {
  auto request = RequestOf<v1::UpdateRequest>(flags);
  request.set_collection(flags.name);
  LC_RETURN_IF_ERROR(SetForeignVectors(flags, &request));
  SetStrictMode(flags, &request);
  LC_ASSIGN_OR_RETURN(const auto response, context.Call(&client::Client::UpdateCollection, request));
  ShowCollection(context, response.collection(), "");
  return absl::OkStatus();
}

absl::Status IndexPayload(Context& context, const CollectionFlags& flags) {
  auto request = RequestOf<v1::IndexPayloadRequest>(flags);
  request.set_collection(flags.name);
  LC_RETURN_IF_ERROR(AddPayloadFields(flags.payload_fields, "--add", request.mutable_add()));
  for (const std::string& path : flags.drop) request.add_drop(path);
  LC_ASSIGN_OR_RETURN(const auto response,
                      context.Call(&client::Client::IndexPayload, request, OptionsOf(context, flags)));
  ShowCollection(context, response.collection(), "");
  return absl::OkStatus();
}

// `otherwise`: what holds where a flag is not given.
void AddIndexFlags(CLI::App* app, CollectionFlags* flags, std::string_view otherwise) {
  ForEachIndexSetting([&]<typename T>(const IndexSetting<T>& one) {
    const auto* field = IndexField(one.name);
    if (field == nullptr) return;
    const std::string help = StrCat(one.help, otherwise);
    if constexpr (std::is_enum_v<T>) {
      app->add_option(IndexFlag(one.name), flags->index_names[one.name], StrCat(AllSettingNames<T>(), ". ", help));
    } else if constexpr (std::is_integral_v<T>) {
      using Number = std::make_unsigned_t<T>;
      app->add_option_function<Number>(
          IndexFlag(one.name),
          [flags, field](const Number& value) {
            const auto* reflection = flags->index.GetReflection();
            if constexpr (sizeof(T) == 8) {
              reflection->SetUInt64(&flags->index, field, value);
            } else {
              reflection->SetUInt32(&flags->index, field, value);
            }
          },
          help);
    }
  });
}

void AddCollectionName(CLI::App* app, CollectionFlags* flags) {
  app->add_option("name", flags->name, "Name of the collection, or an alias of it")->required();
}

void AddRequireGeneration(CLI::App* app, CollectionFlags* flags) {
  app->add_option("--require-generation", flags->require_generation,
                  "Whether an upsert of vectors must name the generation that embedded them: true or false");
}

void AddDefaultTtl(CLI::App* app, CollectionFlags* flags) {
  AddTtl(app, "--default-ttl", &flags->default_ttl_ms, "Seconds after which items expire whose upsert says nothing");
}

void AddForeignVectors(CLI::App* app, CollectionFlags* flags) {
  app->add_option("--foreign-vectors", flags->foreign_vectors,
                  "What becomes of vectors that do not look like those of their generation's model: warn, reject or "
                  "ignore");
}

void AddStrictMode(CLI::App* app, CollectionFlags* flags) {
  server::ForEachStrictMember(
      [&]<typename T>(const char* name, std::optional<T> server::StrictMode::*, const char* help) {
        const auto* field = v1::StrictMode::descriptor()->FindFieldByName(name);
        // The flag's name says it.
        std::string text(absl::StripPrefix(help, "Strict mode: "));
        text[0] = absl::ascii_toupper(static_cast<unsigned char>(text[0]));
        app->add_option_function<T>(
            StrictFlag(name),
            [flags, field](const T& value) {
              const auto* reflection = flags->strict_mode.GetReflection();
              if constexpr (std::is_same_v<T, bool>) {
                reflection->SetBool(&flags->strict_mode, field, value);
              } else {
                reflection->SetUInt32(&flags->strict_mode, field, value);
              }
            },
            text);
      });
}

void AddCreateFlags(CLI::App* app, CollectionFlags* flags) {
  app->add_option("name", flags->name, "Name of the collection: letters, digits, '-', '_', '.'")->required();
  app->add_option(
         "--geometry", flags->geometry,
         "Geometry of the embeddings: lorentz (models that lightcone trains), cosine (texts, and most models from "
         "elsewhere), inner_product or euclidean")
      ->capture_default_str();
  app->add_option("--curvature", flags->curvature, "K of the Lorentz geometry, whose curvature is -K; 0: 1");
  AddIndexFlags(app, flags, " Default: the server's.");
  app->add_option("--payload-index", flags->payload_fields,
                  "PATH=TYPE of a payload field to keep an index over, for filters: keyword, integer, float, boolean, "
                  "time, text (words) or geo; may be repeated");
  AddRequireGeneration(app, flags);
  AddDefaultTtl(app, flags);
  AddForeignVectors(app, flags);
  AddStrictMode(app, flags);
  AddRequestId(app, &flags->request_id);
}

void AddUpdateFlags(CLI::App* app, CollectionFlags* flags) {
  AddCollectionName(app, flags);
  AddRequireGeneration(app, flags);
  AddDefaultTtl(app, flags);
  AddForeignVectors(app, flags);
  app->add_option("--scale-generation", flags->scale_generation,
                  "Generation in whose distances the bounds of searches are given that say nothing else; 0: each "
                  "hit's own");
  AddStrictMode(app, flags);
  AddRequestId(app, &flags->request_id);
}

void AddAliasFlags(CLI::App* app, CollectionFlags* flags) {
  app->add_option("alias", flags->alias, "Name of the alias")->required();
  app->add_option("collection", flags->name, "Collection that the alias points at from now on");
  app->add_flag("--remove", flags->remove, "Remove the alias");
  AddRequestId(app, &flags->request_id);
}

void AddPayloadFlags(CLI::App* app, CollectionFlags* flags) {
  AddCollectionName(app, flags);
  app->add_option("--add", flags->payload_fields,
                  "PATH=TYPE of an index to add: keyword, integer, float, boolean, time, text (words) or geo; may be "
                  "repeated");
  app->add_option("--drop", flags->drop, "PATH of an index to drop; may be repeated");
  app->add_flag("--wait", flags->wait, "Wait until every index is ready");
  AddRequestId(app, &flags->request_id);
}

}  // namespace

void AddCollection(CLI::App& root, Context& context) {
  CLI::App* app =
      AddCommand(root, "collection", "Create, list, show, drop, alias, update, rebuild and index collections");
  app->require_subcommand(1);
  AddCommands<CollectionFlags>(*app, context,
                               {{"create", "Create a collection", &CreateCollection, &AddCreateFlags},
                                {"list", "List collections", &ListCollections, [](CLI::App*, CollectionFlags*) {}},
                                {"get", "Show one collection and its segments", &GetCollection, &AddCollectionName},
                                {"drop", "Remove a collection and everything in it", &DropCollection,
                                 [](CLI::App* drop, CollectionFlags* flags) {
                                   drop->add_option("name", flags->name, "Name of the collection")->required();
                                   drop->add_flag("--yes", flags->yes, "Confirm the removal");
                                   AddRequestId(drop, &flags->request_id);
                                 }},
                                {"alias", "Point an alias at a collection, atomically", &SetAlias, &AddAliasFlags},
                                {"update", "Change settings that need no work on the index", &Update, &AddUpdateFlags},
                                {"rebuild", "Change index settings and build the sealed segments again", &Rebuild,
                                 [](CLI::App* rebuild, CollectionFlags* flags) {
                                   AddCollectionName(rebuild, flags);
                                   AddIndexFlags(rebuild, flags, "");
                                   rebuild->add_flag("--wait", flags->wait, "Wait until the segments are built");
                                   AddRequestId(rebuild, &flags->request_id);
                                 }},
                                {"index-payload", "Add and drop payload indexes", &IndexPayload, &AddPayloadFlags}});
}

}  // namespace lightcone::cli
