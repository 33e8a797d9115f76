//! The description of the API: what the code says, with the configured names, and what can be refused.

use serde_json::{Value, json};
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::schema::{Components, Object, ObjectBuilder, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{HeaderBuilder, InfoBuilder, OpenApi, OpenApiBuilder, Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

use super::schema::IdText;
use super::{count, state, users};
use crate::http::Kind;
use crate::http::problem::ProblemBody;
use crate::model::Vocabulary;

pub(super) const ROUTE: &str = "/openapi.json";

/// Title, version and description; paths come from the handlers.
pub(super) fn base() -> OpenApi {
    let info = InfoBuilder::new()
        .title("tallyd")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "Who did what, and how many: likes, favourites, follows, views. Ids and counts are strings in answers, \
             for JSON numbers lose digits above 2^53 in many languages; in input they may be strings or integers. An \
             unknown target is not an error: nobody has acted on it. Every answer carries X-Request-Id.",
        ))
        .license(Some(utoipa::openapi::License::new("MIT OR Apache-2.0")));
    OpenApiBuilder::new().info(info.build()).build()
}

/// Adds the names that are configured, everything that can be refused, and the token if there is one.
pub(super) fn complete(mut document: OpenApi, vocabulary: &Vocabulary, secured: bool) -> OpenApi {
    for (route, item) in &mut document.paths.paths {
        describe(route, item, vocabulary, secured);
    }
    let components = document.components.get_or_insert_with(Components::new);
    components.schemas.insert(IdText::name().into_owned(), IdText::schema());
    components.schemas.insert(ProblemBody::name().into_owned(), ProblemBody::schema());
    for status in statuses() {
        components.responses.insert(response_name(status), RefOr::T(refusal(status)));
    }
    if secured {
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        components.security_schemes.insert("token".to_owned(), RefOr::T(scheme));
        document.security = Some(vec![SecurityRequirement::new("token", [""; 0])]);
    }
    document
}

fn describe(route: &str, item: &mut PathItem, vocabulary: &Vocabulary, secured: bool) {
    let of_kind = |counters: bool, states: bool| -> Vec<Value> {
        let wanted = vocabulary.interactions.iter().filter(|i| if i.has_states() { states } else { counters });
        wanted.map(|interaction| json!(interaction.name)).collect()
    };
    let with_states = of_kind(false, true);
    let (of_get, of_post) = match route {
        count::ROUTE => (of_kind(true, true), of_kind(true, false)),
        _ => (with_states.clone(), Vec::new()),
    };
    let operations = [
        (&mut item.get, true, of_get),
        (&mut item.post, false, of_post),
        (&mut item.put, false, with_states.clone()),
        (&mut item.delete, false, with_states),
    ];
    for (operation, reads, interactions) in operations {
        let has_interaction = [state::ROUTE, count::ROUTE, users::ROUTE].contains(&route);
        if has_interaction && interactions.is_empty() {
            // Nothing that is configured can be asked for in this way.
            *operation = None;
        }
        let Some(operation) = operation else { continue };
        fill_in(operation, &interactions, vocabulary);
        refuse(operation, route, reads, secured);
    }
}

/// The schemas of parameters in the path.
fn fill_in(operation: &mut Operation, interactions: &[Value], vocabulary: &Vocabulary) {
    let one_of = |values: Vec<Value>| -> Object {
        ObjectBuilder::new().schema_type(Type::String).enum_values(Some(values)).build()
    };
    for parameter in operation.parameters.iter_mut().flatten() {
        let RefOr::T(parameter) = parameter else { continue };
        let schema = match parameter.name.as_str() {
            "interaction" => one_of(interactions.to_vec()).into(),
            "target_type" => {
                let codes = vocabulary.targets.iter().map(|target| json!(target.code.to_string()));
                let names = vocabulary.targets.iter().map(|target| json!(target.name));
                one_of(codes.chain(names).collect()).into()
            }
            "target_id" | "user_id" => RefOr::Ref(Ref::from_schema_name(IdText::name())),
            _ => continue,
        };
        parameter.schema = Some(schema);
    }
}

/// Documents every status that the operation can be refused with, and the headers of its answer.
fn refuse(operation: &mut Operation, route: &str, reads: bool, secured: bool) {
    for response in operation.responses.responses.values_mut() {
        if let RefOr::T(response) = response {
            response.headers.extend([header("X-Request-Id")]);
            // The list of a user is of MySQL at any time.
            if ![users::ROUTE, ROUTE].contains(&route) {
                response.headers.extend([header("Tallyd-Source")]);
            }
        }
    }
    let (has_path, has_body) = (route.contains('{'), operation.request_body.is_some());
    for status in statuses() {
        let possible = match status {
            401 => secured,
            403 => !secured && !reads,
            400 => has_path || has_body,
            404 | 422 => has_path,
            408 | 413 => has_body,
            429 => route != ROUTE,
            _ => true,
        };
        if possible {
            let response = RefOr::Ref(Ref::from_response_name(response_name(status)));
            operation.responses.responses.insert(status.to_string(), response);
        }
    }
}

fn statuses() -> Vec<u16> {
    let mut statuses: Vec<u16> = Kind::ALL.iter().map(|kind| kind.status().as_u16()).collect();
    statuses.dedup();
    statuses
}

fn response_name(status: u16) -> String {
    format!("Refused{status}")
}

fn refusal(status: u16) -> Response {
    let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| kind.status().as_u16() == status).collect();
    let lines: Vec<String> = kinds.iter().map(|kind| format!("{} (`{}`)", kind.title(), kind.urn())).collect();
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(ProblemBody::name()))).build();
    let response = ResponseBuilder::new().description(lines.join("; ")).content("application/problem+json", content);
    let mut response = response.build();
    let further = match status {
        401 => Some(header("WWW-Authenticate")),
        405 => Some(header("Allow")),
        429 | 503 => Some(header("Retry-After")),
        _ => None,
    };
    response.headers.extend(further.into_iter().chain([header("X-Request-Id")]));
    response
}

fn header(name: &str) -> (String, RefOr<utoipa::openapi::Header>) {
    let (schema, description) = match name {
        "Retry-After" => {
            let seconds = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1));
            (seconds.build(), "Seconds after which it is worth asking again")
        }
        "Allow" => (ObjectBuilder::new().schema_type(Type::String).build(), "The methods that are possible here"),
        "Tallyd-Source" => {
            let word = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(["mysql"])).build();
            (word, "Where MySQL answered in the place of Redis; what is not synced yet is missing then")
        }
        "WWW-Authenticate" => (ObjectBuilder::new().schema_type(Type::String).build(), "What is needed: Bearer"),
        _ => {
            let id = ObjectBuilder::new().schema_type(Type::String).min_length(Some(1)).max_length(Some(128));
            (id.build(), "The id of the request: the one it brought when that is sane, else a new one")
        }
    };
    let header = HeaderBuilder::new().schema(Some(schema)).description(Some(description)).build();
    (name.to_owned(), RefOr::T(header))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Config;

    fn document(text: &str, secured: bool) -> Value {
        let vocabulary = Config::parse(text, [], Path::new("f")).unwrap().vocabulary;
        let (_, document) = super::super::routes().split_for_parts();
        serde_json::to_value(complete(document, &vocabulary, secured)).unwrap()
    }

    /// Calls `visit` with every `$ref` in the document.
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
                map.values().for_each(|value| references(value, found));
            }
            Value::Array(values) => values.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn what_is_referred_to_is_there() {
        let document = document("", true);
        assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 50, "{}", found.len());
        for reference in found {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
        }
    }

    #[test]
    fn every_status_is_documented_where_it_can_happen() {
        let document = document("", true);
        let statuses = |route: &str, method: &str| -> Vec<String> {
            let responses = &document["paths"][route][method]["responses"];
            responses.as_object().unwrap().keys().cloned().collect()
        };
        let all = ["200", "400", "401", "404", "405", "408", "413", "422", "429", "500", "503"];
        assert_eq!(statuses(count::ROUTE, "post"), all);
        assert_eq!(statuses("/v1/batch", "post"), ["200", "400", "401", "405", "408", "413", "429", "500", "503"]);
        assert_eq!(statuses(state::ROUTE, "put"), ["200", "400", "401", "404", "405", "422", "429", "500", "503"]);
        assert_eq!(statuses(ROUTE, "get"), ["200", "401", "405", "500", "503"]);
        // Where a token is needed, no page of another site can make use of a browser.
        let open = self::document("", false);
        for (route, method, refused) in
            [("/v1/batch", "post", true), (state::ROUTE, "put", true), (ROUTE, "get", false)]
        {
            assert_eq!(open["paths"][route][method]["responses"]["403"].is_object(), refused, "{method} {route}");
        }
        assert_eq!(document["components"]["securitySchemes"]["token"], json!({"type": "http", "scheme": "bearer"}));
    }

    #[test]
    fn without_tokens_none_is_asked_for() {
        let document = document("", false);
        assert!(document.get("security").is_none() && document["components"].get("securitySchemes").is_none());
        assert!(document["paths"][state::ROUTE]["put"]["responses"].get("401").is_none());
    }

    #[test]
    fn parameters_hold_what_is_configured() {
        let text = "[[target]]\nname = \"post\"\ncode = 9\n[[interaction]]\nname = \"up\"\ncode = 1";
        let document = document(text, false);
        let parameters = &document["paths"][state::ROUTE]["put"]["parameters"];
        assert_eq!(parameters[0]["schema"], json!({"type": "string", "enum": ["up"]}));
        assert_eq!(parameters[1]["schema"], json!({"type": "string", "enum": ["9", "post"]}));
        assert_eq!(parameters[2]["schema"], json!({"$ref": "#/components/schemas/Id"}));
        assert!(document["paths"][count::ROUTE].get("post").is_none(), "there is no counter");
        let names = &self::document("", false)["paths"][count::ROUTE]["get"]["parameters"][0]["schema"]["enum"];
        assert_eq!(*names, json!(["like", "collect", "follow", "view"]));
    }

    #[test]
    fn bodies_take_no_unknown_fields() {
        let document = document("", false);
        for name in ["Batch", "Operation", "Query", "QueryItem", "View"] {
            let schema = &document["components"]["schemas"][name];
            assert_eq!(schema["additionalProperties"], json!(false), "{name}: {schema}");
        }
        let item = &document["components"]["schemas"]["QueryItem"];
        assert_eq!(item["required"], json!(["interaction", "target_type", "target_id"]));
    }
}
