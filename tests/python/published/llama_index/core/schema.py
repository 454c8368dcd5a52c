import json


class BaseNode:
    def __init__(self, text="", *, id_="", embedding=None, metadata=None, ref_doc_id=None):
        self.text, self.node_id, self.embedding = text, id_, embedding
        self.metadata, self.ref_doc_id = dict(metadata or {}), ref_doc_id

    def get_embedding(self):
        if self.embedding is None:
            raise ValueError("embedding not set.")
        return self.embedding

    def get_content(self):
        return self.text

    @classmethod
    def class_name(cls):
        return "TextNode"

    def to_json(self):
        return json.dumps(
            {"id_": self.node_id, "text": self.text, "metadata": self.metadata, "ref_doc_id": self.ref_doc_id}
        )

    @classmethod
    def from_json(cls, text):
        return cls(**json.loads(text))


class TextNode(BaseNode):
    pass
