#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "cli/commands.h"
#include "cli/json/message_json.h"

namespace lightcone::cli {
namespace {

struct CollectionFlags {
  std::string name, alias, request_id;
  std::string geometry = "lorentz", kind, codes;
  double curvature = 0;
  uint32_t hnsw_m = 0, ef_construction = 0, ef_search = 0, ivf_lists = 0, ivf_nprobe = 0, pq_m = 0;
  uint64_t growing_rows_max = 0, merge_rows_max = 0;
  bool remove = false, yes = false, wait = false;
  std::vector<std::string> payload_fields, drop;
};

// The value of a wire enum that `name_of` gives this name; all but the unspecified one are allowed.
template <typename Enum>
absl::StatusOr<Enum> ParseName(std::string_view flag, std::string_view text, int values, std::string (*name_of)(Enum)) {
  std::string all;
  for (int i = 1; i <= values; ++i) {
    const std::string name = name_of(static_cast<Enum>(i));
    if (name == text) return static_cast<Enum>(i);
    all += StrCat(all.empty() ? "" : ", ", name);
  }
  return InvalidField(flag, StrCat("'", text, "'"), all);
}

// PATH=TYPE.
absl::Status AddPayloadFields(const std::vector<std::string>& texts, const std::string& flag,
                              google::protobuf::RepeatedPtrField<v1::PayloadField>* fields) {
  for (const std::string& text : texts) {
    const size_t at = text.rfind('=');
    v1::PayloadField* field = fields->Add();
    field->set_path(text.substr(0, at));
    for (int i = v1::PayloadType_MIN + 1; i <= v1::PayloadType_MAX && at != std::string::npos; ++i) {
      const auto type = static_cast<v1::PayloadType>(i);
      if (PayloadTypeName(type) == text.substr(at + 1)) field->set_type(type);
    }
    if (field->type() == v1::PAYLOAD_TYPE_UNSPECIFIED) {
      return InvalidField(flag, StrCat("'", text, "'"),
                          "PATH=TYPE with a type of keyword, integer, float, boolean, time");
    }
  }
  return absl::OkStatus();
}

absl::Status SetIndex(const CollectionFlags& flags, v1::IndexSettings* index) {
  if (!flags.kind.empty()) {
    LC_ASSIGN_OR_RETURN(const v1::IndexKind kind, ParseName("--index", flags.kind, v1::IndexKind_MAX, IndexKindName));
    index->set_kind(kind);
  }
  if (!flags.codes.empty()) {
    LC_ASSIGN_OR_RETURN(const v1::RowCodes codes, ParseName("--codes", flags.codes, v1::RowCodes_MAX, RowCodesName));
    index->set_codes(codes);
  }
  index->set_hnsw_m(flags.hnsw_m);
  index->set_hnsw_ef_construction(flags.ef_construction);
  index->set_hnsw_ef_search(flags.ef_search);
  index->set_ivf_lists(flags.ivf_lists);
  index->set_ivf_nprobe(flags.ivf_nprobe);
  index->set_pq_m(flags.pq_m);
  index->set_growing_rows_max(flags.growing_rows_max);
  index->set_merge_rows_max(flags.merge_rows_max);
  return absl::OkStatus();
}

void ShowCollection(const Context& context, const v1::CollectionInfo& info, std::string_view did) {
  if (context.json) return context.PrintJson(CollectionJson(info));
  context.Print(StrCat(did, CollectionsTable({info})));
  if (!info.index_choice().empty()) context.Print(StrCat("\nchosen: ", info.index_choice(), "\n"));
  if (!info.index_error().empty()) context.Print(StrCat("\nindex builds fail: ", info.index_error(), "\n"));
  if (info.segments_size() > 0) context.Print(StrCat("\n", SegmentsTable(info)));
  if (info.payload_indexes_size() > 0) context.Print(StrCat("\n", PayloadIndexesTable(info)));
}

absl::Status CreateCollection(Context& context, const CollectionFlags& flags) {
  v1::CreateRequest request;
  request.set_request_id(flags.request_id);
  request.set_name(flags.name);
  LC_ASSIGN_OR_RETURN(const v1::Geometry geometry,
                      ParseName("--geometry", flags.geometry, v1::Geometry_MAX, GeometryName));
  request.set_geometry(geometry);
  request.set_curvature(flags.curvature);
  LC_RETURN_IF_ERROR(SetIndex(flags, request.mutable_index()));
  LC_RETURN_IF_ERROR(AddPayloadFields(flags.payload_fields, "--payload-index", request.mutable_payload_fields()));
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  LC_ASSIGN_OR_RETURN(const v1::CreateResponse response, client->CreateCollection(request));
  ShowCollection(context, response.collection(), "");
  return absl::OkStatus();
}

absl::Status ListCollections(Context& context, const CollectionFlags&) {
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  LC_ASSIGN_OR_RETURN(const std::vector<v1::CollectionInfo> infos, client->AllCollections());
  if (context.json) {
    OrderedJson all = OrderedJson::array();
    for (const v1::CollectionInfo& info : infos) all.push_back(CollectionJson(info));
    context.PrintJson(all);
  } else {
    context.Print(infos.empty() ? "no collections; make one with 'lightcone collection create NAME'\n"
                                : CollectionsTable(infos));
  }
  return absl::OkStatus();
}

absl::Status GetCollection(Context& context, const CollectionFlags& flags) {
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  v1::CollectionsGetRequest request;
  request.set_name(flags.name);
  LC_ASSIGN_OR_RETURN(const v1::CollectionsGetResponse response, client->GetCollection(request));
  ShowCollection(context, response.collection(), "");
  return absl::OkStatus();
}

absl::Status DropCollection(Context& context, const CollectionFlags& flags) {
  if (!flags.yes) {
    return InvalidArgument(
        StrCat("this removes collection '", flags.name, "' and everything in it; add --yes to do so"));
  }
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  v1::DropRequest request;
  request.set_request_id(flags.request_id);
  request.set_name(flags.name);
  LC_RETURN_IF_ERROR(client->DropCollection(request).status());
  if (context.json) {
    context.PrintJson({{"dropped", flags.name}});
  } else {
    context.Print(StrCat("dropped collection '", flags.name, "'\n"));
  }
  return absl::OkStatus();
}

absl::Status Alias(Context& context, const CollectionFlags& flags) {
  if (flags.remove == !flags.name.empty()) {
    return InvalidArgument("name the collection that the alias is to point at, or --remove the alias");
  }
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  v1::SetAliasRequest request;
  request.set_request_id(flags.request_id);
  request.set_alias(flags.alias);
  request.set_collection(flags.name);
  LC_RETURN_IF_ERROR(client->SetAlias(request).status());
  if (context.json) {
    context.PrintJson({{"alias", flags.alias}, {"collection", flags.name}});
  } else if (flags.remove) {
    context.Print(StrCat("removed alias '", flags.alias, "'\n"));
  } else {
    context.Print(StrCat("alias '", flags.alias, "' points at collection '", flags.name, "'\n"));
  }
  return absl::OkStatus();
}

client::CallOptions CallOf(const Context& context, const CollectionFlags& flags) {
  return flags.wait ? context.Waiting() : client::CallOptions();
}

absl::Status Rebuild(Context& context, const CollectionFlags& flags) {
  v1::RebuildRequest request;
  request.set_request_id(flags.request_id);
  request.set_collection(flags.name);
  request.set_wait(flags.wait);
  LC_RETURN_IF_ERROR(SetIndex(flags, request.mutable_index()));
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  LC_ASSIGN_OR_RETURN(const v1::RebuildResponse response, client->RebuildCollection(request, CallOf(context, flags)));
  ShowCollection(context, response.collection(), flags.wait ? "rebuilt\n" : "rebuilding in the background\n");
  return absl::OkStatus();
}

absl::Status IndexPayload(Context& context, const CollectionFlags& flags) {
  v1::IndexPayloadRequest request;
  request.set_request_id(flags.request_id);
  request.set_collection(flags.name);
  request.set_wait(flags.wait);
  LC_RETURN_IF_ERROR(AddPayloadFields(flags.payload_fields, "--add", request.mutable_add()));
  for (const std::string& path : flags.drop) request.add_drop(path);
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  LC_ASSIGN_OR_RETURN(const v1::IndexPayloadResponse response, client->IndexPayload(request, CallOf(context, flags)));
  ShowCollection(context, response.collection(), "");
  return absl::OkStatus();
}

void AddIndexFlags(CLI::App* app, CollectionFlags* flags) {
  app->add_option("--index", flags->kind,
                  "Kind of sealed segments: flat (exact scan), hnsw, ivf or auto; the server's default");
  app->add_option(
      "--codes", flags->codes,
      "What searches read first of a row: float32, int8, fp16, pq (ivf alone) or auto; the server's default");
  app->add_option("--hnsw-m", flags->hnsw_m, "Edges of a graph node; 0: the default");
  app->add_option("--hnsw-ef-construction", flags->ef_construction, "Breadth while building; 0: the default");
  app->add_option("--hnsw-ef-search", flags->ef_search, "Breadth while searching; 0: the default");
  app->add_option("--ivf-lists", flags->ivf_lists, "Lists of a segment; 0: the default");
  app->add_option("--ivf-nprobe", flags->ivf_nprobe, "Lists that a search reads; 0: the default");
  app->add_option("--pq-m", flags->pq_m, "Parts that pq cuts a vector into, a byte each; 0: the default");
  app->add_option("--growing-rows-max", flags->growing_rows_max, "Rows at which a segment is sealed; 0: the default");
  app->add_option("--merge-rows-max", flags->merge_rows_max, "Segments up to this size are merged; 0: the default");
}

}  // namespace

void AddCollection(CLI::App& root, Context& context) {
  CLI::App* app = AddCommand(root, "collection", "Create, list, show, drop, alias, rebuild and index collections");
  app->require_subcommand(1);
  auto flags = std::make_shared<CollectionFlags>();
  const auto add = [&](const char* name, const char* help, absl::Status (*run)(Context&, const CollectionFlags&)) {
    CLI::App* sub = AddCommand(*app, name, help);
    sub->callback([&context, flags, run] { context.Finish(run(context, *flags)); });
    return sub;
  };
  const auto request_id = [&flags](CLI::App* sub) {
    sub->add_option("--request-id", flags->request_id, "Makes the call idempotent across runs");
  };

  CLI::App* create = add("create", "Create a collection", &CreateCollection);
  create->add_option("name", flags->name, "Letters, digits, '-', '_', '.'")->required();
  create->add_option("--geometry", flags->geometry, "lorentz, cosine, inner_product or euclidean")
      ->capture_default_str();
  create->add_option("--curvature", flags->curvature, "K of the Lorentz geometry (curvature -K); 0: 1");
  AddIndexFlags(create, flags.get());
  create->add_option("--payload-index", flags->payload_fields,
                     "PATH=TYPE of a payload field that filters will ask for: keyword, integer, float, boolean, time");
  request_id(create);

  add("list", "List collections", &ListCollections);
  add("get", "Show one collection and its segments", &GetCollection)
      ->add_option("name", flags->name, "Collection or alias")
      ->required();

  CLI::App* drop = add("drop", "Remove a collection and everything in it", &DropCollection);
  drop->add_option("name", flags->name, "Collection")->required();
  drop->add_flag("--yes", flags->yes, "Really do it");
  request_id(drop);

  CLI::App* alias = add("alias", "Point an alias at a collection, atomically", &Alias);
  alias->add_option("alias", flags->alias, "The alias")->required();
  alias->add_option("collection", flags->name, "What it points at from now on");
  alias->add_flag("--remove", flags->remove, "Remove the alias");
  request_id(alias);

  CLI::App* rebuild = add("rebuild", "Change index settings and build the sealed segments again", &Rebuild);
  rebuild->add_option("name", flags->name, "Collection or alias")->required();
  AddIndexFlags(rebuild, flags.get());
  rebuild->add_flag("--wait", flags->wait, "Wait until the segments are built");
  request_id(rebuild);

  CLI::App* payload = add("index-payload", "Add and drop payload indexes", &IndexPayload);
  payload->add_option("name", flags->name, "Collection or alias")->required();
  payload->add_option("--add", flags->payload_fields, "PATH=TYPE: keyword, integer, float, boolean, time");
  payload->add_option("--drop", flags->drop, "PATH of an index to drop");
  payload->add_flag("--wait", flags->wait, "Wait until all indexes are ready");
  request_id(payload);
}

}  // namespace lightcone::cli
