// lightcone snapshot create | list | delete | verify | restore | download | upload | copy | prune, lightcone restore
#include "cli/commands/snapshot.h"

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/command_table.h"
#include "cli/commands/snapshot_s3.h"
#include "cli/interrupt.h"
#include "cli/table.h"
#include "client/snapshots.h"
#include "google/protobuf/util/time_util.h"
#include "snapshot/copy.h"
#include "snapshot/restore.h"
#include "snapshot/s3/access.h"

namespace lightcone::cli {
namespace {

using Json = nlohmann::ordered_json;

struct SnapshotFlags {
  std::string name, file, folder, request_id, collection, as;
  std::vector<std::string> collections;
  S3Flags s3;
};

absl::StatusOr<std::unique_ptr<client::SnapshotClient>> ConnectForSnapshots(Context& context) {
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  return client::SnapshotClient::Connect(client->options());
}

std::string TimeText(const google::protobuf::Timestamp& time) {
  return google::protobuf::util::TimeUtil::ToString(time);
}

Json SnapshotJson(const v1::SnapshotInfo& one) {
  Json json = {{"name", one.name()}, {"folder", one.folder()}};
  if (!one.damage().empty()) {
    json["damage"] = one.damage();
    return json;
  }
  json["version"] = one.version();
  json["created"] = TimeText(one.created());
  json["sequence"] = one.sequence();
  json["files"] = one.files();
  json["bytes"] = one.bytes();
  json["scheduled"] = one.scheduled();
  if (one.has_verified()) json["verified"] = TimeText(one.verified());
  json["collections"] = Json::array();
  for (const v1::SnapshotContent& content : one.collections()) {
    json["collections"].push_back({{"collection", content.collection()},
                                   {"items", content.items()},
                                   {"sequence", content.sequence()},
                                   {"active_generation", content.active_generation()}});
  }
  return json;
}

void AddSnapshotRow(const v1::SnapshotInfo& one, Table* table) {
  if (!one.damage().empty()) return table->Add({one.name(), "", "", "", "", one.damage()});
  uint64_t items = 0;
  for (const v1::SnapshotContent& content : one.collections()) items += content.items();
  table->Add({one.name(), TimeText(one.created()), Grouped(items), Grouped(one.files()), Bytes(one.bytes()),
              one.has_verified() ? TimeText(one.verified()) : "never"});
}

Table SnapshotsTable() { return Table({"snapshot", "created", "items", "files", "size", "verified"}); }

void ShowSnapshot(const Context& context, const v1::SnapshotInfo& one) {
  Table table = SnapshotsTable();
  AddSnapshotRow(one, &table);
  context.Show(SnapshotJson(one), table.Text());
}

absl::Status RunCreateSnapshot(Context& context, const SnapshotFlags& flags) {
  LC_ASSIGN_OR_RETURN(const auto client, ConnectForSnapshots(context));
  auto request = RequestOf<v1::CreateSnapshotRequest>(flags);
  for (const std::string& name : flags.collections) request.add_collections(name);
  LC_ASSIGN_OR_RETURN(const v1::CreateSnapshotResponse made, client->Create(request, context.Waiting()));
  ShowSnapshot(context, made.snapshot());
  return absl::OkStatus();
}

absl::Status RunListSnapshots(Context& context, const SnapshotFlags& flags) {
  if (!flags.folder.empty()) return ListInS3(context, flags.folder, flags.s3);
  LC_ASSIGN_OR_RETURN(const auto client, ConnectForSnapshots(context));
  LC_ASSIGN_OR_RETURN(const v1::ListSnapshotsResponse all, client->List());
  Json json = Json::array();
  Table table = SnapshotsTable();
  for (const v1::SnapshotInfo& one : all.snapshots()) {
    json.push_back(SnapshotJson(one));
    AddSnapshotRow(one, &table);
  }
  context.Show(json, table.Text());
  return absl::OkStatus();
}

absl::Status RunDeleteSnapshot(Context& context, const SnapshotFlags& flags) {
  LC_ASSIGN_OR_RETURN(const auto client, ConnectForSnapshots(context));
  LC_RETURN_IF_ERROR(client->Delete(flags.name, context.Waiting()));
  context.Show({{"deleted", flags.name}}, StrCat("deleted snapshot ", flags.name, "\n"));
  return absl::OkStatus();
}

absl::Status RunVerifySnapshot(Context& context, const SnapshotFlags& flags) {
  if (IsS3Url(flags.name)) return VerifyInS3(context, flags.name, flags.s3);
  LC_ASSIGN_OR_RETURN(const auto client, ConnectForSnapshots(context));
  LC_ASSIGN_OR_RETURN(const v1::VerifySnapshotResponse verified, client->Verify(flags.name, context.Waiting()));
  ShowSnapshot(context, verified.snapshot());
  return absl::OkStatus();
}

absl::Status RunRestoreCollection(Context& context, const SnapshotFlags& flags) {
  LC_ASSIGN_OR_RETURN(const auto client, ConnectForSnapshots(context));
  v1::RestoreCollectionRequest request;
  request.set_request_id(flags.request_id);
  request.set_snapshot(flags.name);
  request.set_collection(flags.collection);
  request.set_name(flags.as);
  LC_ASSIGN_OR_RETURN(const v1::RestoreCollectionResponse restored,
                      client->RestoreCollection(request, context.Waiting()));
  context.Show(
      {{"collection", restored.name()},
       {"items", restored.items()},
       {"sequence", restored.sequence()},
       {"active_generation", restored.active_generation()}},
      StrCat("restored collection ", flags.collection, " of snapshot ", flags.name,
             flags.as.empty() ? "" : StrCat(" as ", restored.name()), ": ", Grouped(restored.items()), " items\n"));
  return absl::OkStatus();
}

absl::Status RunDownloadSnapshot(Context& context, const SnapshotFlags& flags) {
  LC_ASSIGN_OR_RETURN(const auto client, ConnectForSnapshots(context));
  uint64_t bytes = 0;
  {
    ProgressBar bar("download", 0, "bytes");
    const auto seen = [&](uint64_t now) { bar.Show(0, static_cast<int64_t>(bytes = now)); };
    LC_RETURN_IF_ERROR(client->Download(flags.name, flags.file, seen, context.Waiting()));
  }
  context.Show({{"file", flags.file}, {"bytes", bytes}}, StrCat("wrote ", Bytes(bytes), " to ", flags.file, "\n"));
  return absl::OkStatus();
}

absl::Status RunUploadSnapshot(Context& context, const SnapshotFlags& flags) {
  LC_ASSIGN_OR_RETURN(const auto client, ConnectForSnapshots(context));
  ProgressBar bar("upload", 0, "bytes");
  const auto seen = [&](uint64_t now) { bar.Show(0, static_cast<int64_t>(now)); };
  LC_ASSIGN_OR_RETURN(const v1::UploadSnapshotResponse taken,
                      client->Upload(flags.file, flags.name, seen, context.Waiting()));
  bar.Clear();
  ShowSnapshot(context, taken.snapshot());
  return absl::OkStatus();
}

absl::StatusOr<SnapshotCopy> CopyTo(const SnapshotFlags& flags) {
  if (IsS3Url(flags.folder)) return CopyToS3(flags.name, flags.folder, flags.s3);
  const StopOnInterrupt interrupt;
  return CopySnapshot(flags.name, flags.folder, [&interrupt] { return interrupt.flag()->load(); });
}

absl::Status RunCopySnapshot(Context& context, const SnapshotFlags& flags) {
  LC_ASSIGN_OR_RETURN(const SnapshotCopy copy, CopyTo(flags));
  context.Show(
      {{"snapshot", copy.manifest.name},
       {"copied_files", copy.copied_files},
       {"copied_bytes", copy.copied_bytes},
       {"shared_files", copy.shared_files},
       {"shared_bytes", copy.shared_bytes}},
      StrCat("copied ", copy.copied_files, " files of ", Bytes(copy.copied_bytes), " to ", flags.folder, "/",
             copy.manifest.name, "; ", copy.shared_files, " of ", Bytes(copy.shared_bytes), " were there already\n"));
  return absl::OkStatus();
}

absl::Status RunPruneSnapshots(Context& context, const SnapshotFlags& flags) {
  return PruneInS3(context, flags.folder, flags.s3);
}

absl::StatusOr<SnapshotManifest> RestoreInto(const SnapshotFlags& flags) {
  if (IsS3Url(flags.name)) return RestoreFromS3(flags.name, flags.folder, flags.s3);
  const StopOnInterrupt interrupt;
  return RestoreSnapshot(flags.name, flags.folder, [&interrupt] { return interrupt.flag()->load(); });
}

absl::Status RunRestoreSnapshot(Context& context, const SnapshotFlags& flags) {
  LC_ASSIGN_OR_RETURN(const SnapshotManifest manifest, RestoreInto(flags));
  uint64_t items = 0;
  for (const SnapshotCollection& one : manifest.collections) items += one.items;
  context.Show({{"snapshot", manifest.name},
                {"data", flags.folder},
                {"collections", manifest.collections.size()},
                {"items", items},
                {"bytes", manifest.Bytes()}},
               StrCat("restored snapshot ", manifest.name, " into ", flags.folder, ": ", manifest.collections.size(),
                      " collections, ", Grouped(items), " items, ", Bytes(manifest.Bytes()), "\n"));
  return absl::OkStatus();
}

void AddSnapshotName(CLI::App* app, SnapshotFlags* flags) {
  app->add_option("name", flags->name, "Name of the snapshot")->required();
}

}  // namespace

void AddSnapshot(CLI::App& root, Context& context) {
  CLI::App* app = AddCommand(root, "snapshot",
                             "Make, list, verify, delete and carry snapshots of a running server, and bring a "
                             "collection back");
  app->require_subcommand(1);
  AddCommands<SnapshotFlags>(
      *app, context,
      {{"create", "Make a snapshot while searches and writes go on", &RunCreateSnapshot,
        [](CLI::App* create, SnapshotFlags* flags) {
          create->add_option("name", flags->name, "Name of the snapshot; default: a name of the present time");
          create
              ->add_option("--collection", flags->collections,
                           "COLLECTION that it is to hold, or an alias, as often as wanted; default: the whole server")
              ->allow_extra_args(false);
          AddRequestId(create, &flags->request_id);
        }},
       {"list", "List the snapshots of the server, or of a place in a bucket, damaged ones too", &RunListSnapshots,
        [](CLI::App* list, SnapshotFlags* flags) {
          list->add_option("from", flags->folder, "s3://BUCKET/PREFIX; default: the server");
          AddS3Access(list, &flags->s3);
        }},
       {"delete", "Delete a snapshot", &RunDeleteSnapshot, &AddSnapshotName},
       {"verify", "Read every byte of a snapshot, and name what is damaged", &RunVerifySnapshot,
        [](CLI::App* verify, SnapshotFlags* flags) {
          verify->add_option("name", flags->name, "Name of the server's snapshot, or s3://BUCKET/PREFIX/NAME")
              ->required();
          AddS3Access(verify, &flags->s3);
        }},
       {"restore", "Bring a collection of a snapshot into the running server", &RunRestoreCollection,
        [](CLI::App* restore, SnapshotFlags* flags) {
          AddSnapshotName(restore, flags);
          restore->add_option("collection", flags->collection, "Name of the collection in the snapshot")->required();
          restore->add_option("--as", flags->as, "New NAME of the collection; default: the same name");
          AddRequestId(restore, &flags->request_id);
        }},
       {"download", "Write a snapshot to a file, as one tar archive", &RunDownloadSnapshot,
        [](CLI::App* download, SnapshotFlags* flags) {
          AddSnapshotName(download, flags);
          download->add_option("file", flags->file, "File to write; it must not exist")->required();
        }},
       {"upload", "Give the archive of a snapshot to the server", &RunUploadSnapshot,
        [](CLI::App* upload, SnapshotFlags* flags) {
          upload->add_option("file", flags->file, "File that `snapshot download` wrote")->required();
          upload->add_option("--name", flags->name, "Name of the snapshot on the server; default: the archive's");
        }},
       {"copy", "Copy a snapshot's folder to another folder or a bucket, without the files that are there already",
        &RunCopySnapshot,
        [](CLI::App* copy, SnapshotFlags* flags) {
          copy->add_option("snapshot", flags->name, "Folder of the snapshot on this machine")->required();
          copy->add_option("to", flags->folder, "Folder that holds the copies, or s3://BUCKET/PREFIX")->required();
          AddS3Access(copy, &flags->s3);
        }},
       {"prune", "Delete the oldest snapshots of a place in a bucket, and the files that no other snapshot there needs",
        &RunPruneSnapshots, [](CLI::App* prune, SnapshotFlags* flags) {
          prune->add_option("from", flags->folder, "s3://BUCKET/PREFIX")->required();
          AddS3Retention(prune, &flags->s3);
          AddS3Access(prune, &flags->s3);
        }}});
}

void AddRestore(CLI::App& root, Context& context) {
  AddCommands<SnapshotFlags>(
      root, context,
      {{"restore", "Make a data folder of a snapshot, without a server", &RunRestoreSnapshot,
        [](CLI::App* restore, SnapshotFlags* flags) {
          restore
              ->add_option("snapshot", flags->name,
                           "Folder of a snapshot, a file that `snapshot download` wrote, or s3://BUCKET/PREFIX/NAME")
              ->required();
          restore->add_option("--data", flags->folder, "Data folder to make; it must be missing or empty")->required();
          AddS3Access(restore, &flags->s3);
        }}});
}

}  // namespace lightcone::cli
