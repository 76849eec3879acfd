//! From source to instructions that are safe to run: the source is bounded before it is parsed, and operators whose
//! cost is not a constant are replaced by calls of [`super::operators`].

use std::collections::BTreeMap;

use minijinja::machinery::{CodeGenerator, Instruction, Instructions, Token, parse, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Error, ErrorKind, Value};

use super::meter::exceeded;
use super::operators as op;

/// Bytes of a source: the longest known template has 30 thousand.
const LONGEST_SOURCE: usize = 512 << 10;
/// Tokens between `{{` and `}}`, or `{%` and `%}`. The parser counts brackets but not chains such as `not not x` or
/// `x.a.a`, and each link takes stack when it is compiled.
const MOST_TOKENS: usize = 4096;
/// One `elif` is a level for the parser, within the one before.
const MOST_ELIFS: usize = 1000;
/// Bytes of a constant that the compiler may make out of others (`'-' * 80`).
const LONGEST_CONSTANT: u64 = 1 << 20;

/// A compiled template.
pub(super) struct Program<'s> {
    pub main: Instructions<'s>,
    pub blocks: BTreeMap<&'s str, Instructions<'s>>,
}

/// Compiles a source.
pub(super) fn compile<'s>(
    name: &'s str,
    source: &'s str,
    syntax: &SyntaxConfig,
) -> Result<Program<'s>, Error> {
    if source.len() > LONGEST_SOURCE {
        return Err(exceeded(format!("its source has {} bytes, {LONGEST_SOURCE} at most", source.len())));
    }
    check_tags(source, syntax)?;
    let tree = parse(source, name, syntax.clone())?;
    let mut generator = CodeGenerator::new(name, source);
    generator.compile_stmt(&tree);
    let (main, blocks) = generator.finish();
    let blocks = blocks.iter().map(|(name, block)| Ok((*name, guarded(block)?)));
    Ok(Program { main: guarded(&main)?, blocks: blocks.collect::<Result<_, Error>>()? })
}

/// What a tag holds.
#[derive(Default)]
struct Tag {
    tokens: usize,
    /// An upper bound of the bytes of its constants.
    constants: u64,
    /// The product of its numbers.
    factor: u64,
    /// It has an operator that repeats.
    multiplies: bool,
    /// It has strings or lists, which can be repeated.
    repeatable: bool,
}

impl Tag {
    fn add_constant(&mut self, text: &str) {
        self.constants += text.len() as u64;
        self.repeatable = true;
    }
}

/// Bounds what parser and compiler do for each tag: levels of the tree, and constants folded into larger ones.
fn check_tags(source: &str, syntax: &SyntaxConfig) -> Result<(), Error> {
    let mut tag = Tag::default();
    let mut elifs = 0;
    for token in tokenize(source, false, syntax.clone()) {
        // What the lexer refuses the parser says better.
        let Ok((token, span)) = token else { return Ok(()) };
        tag.tokens += 1;
        match token {
            Token::TemplateData(_) | Token::VariableStart | Token::BlockStart => {
                tag = Tag { factor: 1, ..Tag::default() };
            }
            Token::Str(text) => tag.add_constant(text),
            Token::String(text) => tag.add_constant(&text),
            Token::BracketOpen | Token::Comma => tag.repeatable = true,
            Token::Int(number) => tag.factor = tag.factor.saturating_mul(number.max(1)),
            Token::Int128(_) | Token::Pow => tag.factor = u64::MAX,
            Token::Mul => tag.multiplies = true,
            Token::Ident("elif") => elifs += 1,
            _ => {}
        }
        let line = span.start_line;
        if tag.tokens > MOST_TOKENS {
            return Err(exceeded(format!("a tag has more than {MOST_TOKENS} words (line {line})")));
        }
        if elifs > MOST_ELIFS {
            return Err(exceeded(format!("it has more than {MOST_ELIFS} elif (line {line})")));
        }
        let constants = (tag.constants + 40 * tag.tokens as u64).saturating_mul(tag.factor);
        if tag.multiplies && tag.repeatable && constants > LONGEST_CONSTANT {
            return Err(exceeded(format!("a constant has more than {LONGEST_CONSTANT} bytes (line {line})")));
        }
    }
    Ok(())
}

/// The same instructions with calls for what costs more than a constant.
fn guarded<'s>(plain: &Instructions<'s>) -> Result<Instructions<'s>, Error> {
    let mut replaced = Vec::new();
    let mut starts = Vec::new();
    let mut next = 0;
    for at in 0.. {
        starts.push(next);
        let Some(instruction) = plain.get(at) else { break };
        let group = replacement(instruction)?;
        next += group.len() as u32;
        replaced.push((group, plain.get_line(at).unwrap_or(0) as u16));
    }
    let mut out = Instructions::new(plain.name(), plain.source());
    for (group, line) in replaced {
        for mut instruction in group {
            if let Some(target) = target(&mut instruction) {
                *target = starts[*target as usize];
            }
            out.add_with_line(instruction, line);
        }
    }
    Ok(out)
}

/// Where an instruction may jump to.
fn target<'i>(instruction: &'i mut Instruction<'_>) -> Option<&'i mut u32> {
    match instruction {
        Instruction::Jump(to)
        | Instruction::JumpIfFalse(to)
        | Instruction::JumpIfFalseOrPop(to)
        | Instruction::JumpIfTrueOrPop(to)
        | Instruction::Iterate(to)
        | Instruction::BuildMacro(_, to, _) => Some(to),
        _ => None,
    }
}

/// What runs in place of an instruction.
fn replacement<'s>(instruction: &Instruction<'s>) -> Result<Vec<Instruction<'s>>, Error> {
    let call = |name: &'static str, arguments: u16| Instruction::CallFunction(name, Some(arguments));
    let of_items = |name: &'static str, items: usize| match u16::try_from(items) {
        Ok(items) => Ok(vec![call(name, items)]),
        Err(_) => Err(exceeded("a list is written with more items than 65535")),
    };
    Ok(match instruction {
        Instruction::Add => vec![call(op::ADD, 2)],
        Instruction::Mul => vec![call(op::MUL, 2)],
        Instruction::StringConcat => vec![call(op::CONCAT, 2)],
        Instruction::Eq => vec![call(op::EQ, 2)],
        Instruction::Ne => vec![call(op::NE, 2)],
        Instruction::Lt => vec![call(op::LT, 2)],
        Instruction::Lte => vec![call(op::LE, 2)],
        Instruction::Gt => vec![call(op::GT, 2)],
        Instruction::Gte => vec![call(op::GE, 2)],
        Instruction::In => vec![call(op::IN, 2)],
        Instruction::Slice => vec![call(op::SLICE, 4)],
        Instruction::BuildList(Some(items)) => of_items(op::LIST, *items)?,
        Instruction::BuildTuple(Some(items)) => of_items(op::TUPLE, *items)?,
        Instruction::BuildMap(pairs) => of_items(op::MAP, 2 * pairs)?,
        Instruction::BuildList(None) | Instruction::BuildTuple(None) => {
            vec![instruction.clone(), call(op::KEPT, 1)]
        }
        Instruction::CompareAndPreserve(_) => {
            let walked = call(op::WALKED, 1);
            vec![walked.clone(), Instruction::Swap, walked, Instruction::Swap, instruction.clone()]
        }
        Instruction::GetItem => vec![call(op::ITEM_OF, 2)],
        Instruction::SetAttr(name) => {
            let name = Instruction::LoadConst(Value::from(*name));
            vec![name, call(op::ASSIGN, 3), Instruction::DiscardTop]
        }
        // Text of the template counts as output, like all that is printed.
        Instruction::EmitRaw(text) => vec![Instruction::LoadConst(Value::from(*text)), Instruction::Emit],
        Instruction::Iterate(_) => vec![instruction.clone(), call(op::TICK, 0), Instruction::DiscardTop],
        // `loop.changed` compares with the last value.
        Instruction::CallMethod(name, count) if *name == "changed" => match count {
            Some(2) => vec![call(op::WALKED, 1), instruction.clone()],
            _ => {
                let problem = "loop.changed takes one value here";
                return Err(Error::new(ErrorKind::InvalidOperation, problem));
            }
        },
        Instruction::Include(_) | Instruction::LoadBlocks => vec![call(op::NO_TEMPLATE, 1)],
        other => vec![other.clone()],
    })
}
