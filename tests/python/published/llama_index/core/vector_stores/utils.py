from ..schema import TextNode


def node_to_metadata_dict(node, remove_text=False, text_field="text", flat_metadata=False):
    document = node.ref_doc_id or "None"
    return {
        **node.metadata,
        "_node_content": node.to_json(),
        "_node_type": node.class_name(),
        "document_id": document,
        "doc_id": document,
        "ref_doc_id": document,
    }


def metadata_dict_to_node(metadata, text=None):
    if metadata.get("_node_content") is None:
        raise ValueError("Node content not found in metadata dict.")
    return TextNode.from_json(metadata["_node_content"])
