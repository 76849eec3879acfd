//! POST /rerank: documents by how well they answer a query.

use crate::{
    body::{FieldTable, taken},
    call::HttpCall,
    error::ApiError,
};
use axum::response::Response;

/// Fields of the body: Jina's, and TEI's.
pub const RERANK: FieldTable = FieldTable {
    name: "POST /rerank",
    sampling: false,
    fields: &[
        taken("query", "what is looked for"),
        taken("documents", "texts, or objects with a text"),
        taken("texts", "the same, as TEI calls them"),
        taken("top_n", "so many of the best"),
        taken("return_documents", "the texts come too"),
        taken("model", "name of the model"),
    ],
};

/// The handler.
pub async fn rerank(call: HttpCall) -> Result<Response, ApiError> {
    let mut body = call.body(&RERANK).await?;
    // A wrong name is told as such.
    call.app.models.slot(body.take::<String>("model")?.as_deref())?;
    Err(ApiError::unsupported("no model here has a head that ranks documents"))
}
