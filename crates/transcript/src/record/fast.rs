//! The fast way from a line to a record: straight into its fields, for lines whose fields have the types that
//! they should have. Whatever is unusual fails here, and takes the way of `read`.

use std::borrow::Cow;
use std::fmt;

use holdpoint_model::history::{Content, FunctionCall, FunctionResponse, Part, Role};
use holdpoint_model::ids::{CallId, RecordId};
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::{Kind, OWN, Parent, Record, ToolCallResult};

/// A record, and the format that it names.
pub(super) struct Fast {
    pub(super) record: Record,
    pub(super) format: Option<u64>,
}

/// A key, or a text that is only looked at.
#[derive(serde::Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// A visitor of an object, from the name of what it makes and how its entries are read.
macro_rules! object {
    ($visitor:ident, $made:ty, $what:literal, |$map:ident| $body:block) => {
        struct $visitor;

        impl<'de> Visitor<'de> for $visitor {
            type Value = $made;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($what)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut $map: A) -> Result<$made, A::Error> $body
        }

        impl<'de> Deserialize<'de> for $made {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_map($visitor)
            }
        }
    };
}

object!(RecordVisitor, Fast, "a record", |map| {
    let mut record = Record::empty();
    let mut format = None;
    while let Some(Text(key)) = map.next_key()? {
        match &*key {
            "uuid" => record.uuid = Some(map.next_value()?),
            "parentUuid" => {
                record.parent = map.next_value::<Option<RecordId>>()?.map_or(Parent::Root, Parent::Of);
            }
            "sessionId" => record.session_id = Some(map.next_value()?),
            "timestamp" => record.timestamp = Some(map.next_value()?),
            "type" => record.kind = Kind::parse(&map.next_value::<Text<'_>>()?.0),
            "subtype" => record.subtype = Some(map.next_value()?),
            "cwd" => record.cwd = Some(map.next_value()?),
            "version" => record.version = Some(map.next_value()?),
            "daemonPromptId" => record.prompt_id = Some(map.next_value()?),
            "message" => record.message = Some(map.next_value::<Message>()?.0),
            "model" => record.model = Some(map.next_value()?),
            "usageMetadata" => record.usage = Some(map.next_value()?),
            "toolCallResult" => record.tool_result = Some(map.next_value::<CallResult>()?.0),
            "systemPayload" => record.system_payload = Some(map.next_value()?),
            OWN => {
                let mut own: Map<String, Value> = map.next_value()?;
                format = own.shift_remove("v").map(|v| super::version(&v));
                record.own = Some(own);
            }
            _ => {
                let value = map.next_value()?;
                record.extra.insert(key.into_owned(), value);
            }
        }
    }
    Ok(Fast { record, format })
});

struct Message(Content);

object!(MessageVisitor, Message, "a message", |map| {
    let (mut role, mut parts) = (None, None);
    while let Some(Text(key)) = map.next_key()? {
        match &*key {
            "role" => {
                role = Some(match &*map.next_value::<Text<'_>>()?.0 {
                    "user" => Role::User,
                    "model" => Role::Model,
                    _ => return Err(A::Error::custom("an unusual role")),
                });
            }
            "parts" => parts = Some(map.next_value::<Vec<OnePart>>()?),
            _ => {
                map.next_value::<IgnoredAny>()?;
            }
        }
    }
    let (Some(role), Some(parts)) = (role, parts) else { return Err(A::Error::custom("an unusual message")) };
    Ok(Message(Content { role, parts: parts.into_iter().map(|part| part.0).collect() }))
});

struct OnePart(Part);

object!(PartVisitor, OnePart, "a part", |map| {
    let mut part = Part::default();
    while let Some(Text(key)) = map.next_key()? {
        match &*key {
            "text" => part.text = Some(map.next_value()?),
            "thought" => part.thought = Some(map.next_value()?),
            "thoughtSignature" => part.thought_signature = Some(map.next_value()?),
            "functionCall" => part.function_call = Some(map.next_value::<Call>()?.0),
            "functionResponse" => part.function_response = Some(map.next_value::<Response>()?.0),
            _ => {
                let value = map.next_value()?;
                part.extra.insert(key.into_owned(), value);
            }
        }
    }
    Ok(OnePart(part))
});

struct Call(FunctionCall);

object!(CallVisitor, Call, "a call", |map| {
    let (mut id, mut name, mut args) = (None, None, Value::Null);
    while let Some(Text(key)) = map.next_key()? {
        match &*key {
            "id" => id = Some(map.next_value::<CallId>()?),
            "name" => name = Some(map.next_value()?),
            "args" => args = map.next_value()?,
            _ => {
                map.next_value::<IgnoredAny>()?;
            }
        }
    }
    let name = name.ok_or_else(|| A::Error::custom("a call without a name"))?;
    Ok(Call(FunctionCall { id, name, args }))
});

struct Response(FunctionResponse);

object!(ResponseVisitor, Response, "a response", |map| {
    let (mut id, mut name, mut response) = (None, None, Value::Null);
    while let Some(Text(key)) = map.next_key()? {
        match &*key {
            "id" => id = Some(map.next_value::<CallId>()?),
            "name" => name = Some(map.next_value()?),
            "response" => response = map.next_value()?,
            _ => {
                map.next_value::<IgnoredAny>()?;
            }
        }
    }
    let name = name.ok_or_else(|| A::Error::custom("a response without a name"))?;
    Ok(Response(FunctionResponse { id, name, response }))
});

struct CallResult(ToolCallResult);

object!(ResultVisitor, CallResult, "a result", |map| {
    let mut result = ToolCallResult::default();
    while let Some(Text(key)) = map.next_key()? {
        match &*key {
            "callId" => result.call_id = Some(map.next_value()?),
            "status" => result.status = Some(map.next_value()?),
            "executionStatus" => result.execution_status = Some(map.next_value()?),
            "resultDisplay" => {
                result.result_display = Some(map.next_value::<Value>()?).filter(|display| !display.is_null());
            }
            _ => {
                let value = map.next_value()?;
                result.extra.insert(key.into_owned(), value);
            }
        }
    }
    Ok(CallResult(result))
});
