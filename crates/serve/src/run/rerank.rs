//! How well documents answer a query: by a reranker's classifier, or by how much likelier a model says yes than no.

use super::embed::finished;
use crate::{
    error::ApiError,
    models::{Lease, LiveModel},
};
use lamina::{Model, SentRow, Special, Terms};
use serde_json::{Map, json};

/// Documents of one request at most.
pub const MOST_DOCUMENTS: usize = 2048;

/// A document on its way.
pub struct SentDocument {
    row: SentRow,
    /// Tokens that say yes and no, where the row has logits.
    words: Option<(u32, u32)>,
}

/// Sends all documents; they share steps. What it does takes the time of tokenizing them.
///
/// # Errors
/// When the model neither scores pairs nor may be asked, or a pair does not fit.
pub fn send_documents(
    live: &LiveModel,
    ask: bool,
    query: &str,
    documents: &[String],
    terms: &Terms,
) -> Result<Vec<SentDocument>, ApiError> {
    let model = &live.model;
    documents.iter().try_for_each(|document| live.text_room.check(query.len() + document.len()))?;
    if model.scores_pairs() {
        let send = |document: &String| {
            Ok(SentDocument { row: model.submit_pair(query, document, terms.clone())?, words: None })
        };
        return documents.iter().map(send).collect();
    }
    if !ask {
        let text = "this model has no head that ranks documents: use a reranker such as bge-reranker, \
            or start the server with --reranking, which asks the model itself";
        return Err(ApiError::unsupported(text));
    }
    let words = Some(yes_and_no(model)?);
    let send = |document: &String| {
        let tokens = question(live, query, document)?;
        Ok(SentDocument { row: model.submit_logits(tokens, terms.clone())?, words })
    };
    documents.iter().map(send).collect()
}

impl SentDocument {
    /// Its score: the logit of how likely the document answers the query.
    ///
    /// # Errors
    /// When the model fails.
    pub async fn score(&self) -> Result<f64, ApiError> {
        finished(&self.row.handle).await?;
        let row = self.row.rows.row();
        Ok(match self.words {
            None => f64::from(row[0]),
            Some((yes, no)) => f64::from(row[yes as usize]) - f64::from(row[no as usize]),
        })
    }

    /// Tokens of the query and the document.
    pub fn tokens(&self) -> usize {
        self.row.tokens
    }
}

/// The question that causal rerankers are trained with (Qwen3-Reranker's model card).
fn question(live: &LiveModel, query: &str, document: &str) -> Result<Vec<u32>, ApiError> {
    let task = "Given a web search query, retrieve relevant passages that answer the query";
    let judge = "Judge whether the Document meets the requirements based on the Query and the Instruct provided. \
        Note that the answer can only be \"yes\" or \"no\".";
    let pair = format!("<Instruct>: {task}\n<Query>: {query}\n<Document>: {document}");
    let messages = [json!({"role": "system", "content": judge}), json!({"role": "user", "content": pair})];
    let variables = Map::from_iter([("enable_thinking".to_owned(), json!(false))]);
    Ok(live.model.chat_tokens(&messages, &live.chat_options(None, variables))?)
}

/// The first tokens of the two answers.
fn yes_and_no(model: &Model) -> Result<(u32, u32), ApiError> {
    let first = |word: &str| Ok::<_, ApiError>(model.tokenize(word, Special::NONE)?.first().copied());
    match (first("yes")?, first("no")?) {
        (Some(yes), Some(no)) if yes != no => Ok((yes, no)),
        _ => Err(ApiError::unsupported("this model's answers yes and no begin with the same token")),
    }
}

/// Whether a model may be asked where it has no classifier.
pub fn may_ask(lease: &Lease) -> bool {
    lease.slot().settings.reranking
}
