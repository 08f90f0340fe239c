//! Expressions: the tree, and the parser that makes it.
//!
//! Precedence as in pgbench (and nearly SQL), loosest first: `or`, `and`, `not`, `is`/`isnull`/
//! `notnull`, comparisons (which do not chain), `| # & << >>` and unary `~`, `+ -`, `* / %`, unary
//! `+ -`. The parser is a precedence climber; its depth and the tree's height are bounded, so that
//! no input can exhaust the stack here, in evaluation, or when the tree is freed.

use super::error::{Fault, closest};
use super::functions::{self, FUNCTIONS, Function};
use super::lexer::{Lexer, Token};
use super::names::{Names, Scope, Slot};
use super::value::Value;
use super::{HEIGHT_MAX, NESTING_MAX};

/// A parsed expression.
#[derive(Debug, Clone)]
pub struct Expr(pub(super) Node);

/// A value of each row of `\rows`.
#[derive(Debug, Clone)]
pub(super) enum Column {
    Expr(Expr),
    Variable(Slot),
    Text(String),
}

/// A node of the tree.
#[derive(Debug, Clone)]
pub(super) enum Node {
    Constant(Value),
    Variable(Slot),
    /// `:name[index]`.
    Element(Slot, Box<Node>),
    Not(Box<Node>),
    /// `is null`, `is true`, `is false`: same type and same value.
    Is(Box<Node>, Value),
    Binary(Operator, Box<(Node, Node)>),
    Call(Function, Box<[Node]>),
    /// Conditions with their values, and the value of ELSE.
    Case(Box<[(Node, Node)]>, Box<Node>),
}

/// Operators of two operands. `a > b` is `b < a`, which evaluates `b` first, as in pgbench.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Or,
    And,
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
    BitOr,
    BitXor,
    BitAnd,
    ShiftLeft,
    ShiftRight,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

/// Binding powers, loosest first.
mod power {
    pub const OR: u8 = 1;
    pub const AND: u8 = 2;
    pub const NOT: u8 = 3;
    pub const IS: u8 = 4;
    pub const COMPARE: u8 = 5;
    pub const BITS: u8 = 6;
    pub const SUM: u8 = 7;
    pub const PRODUCT: u8 = 8;
    pub const SIGN: u8 = 9;
}

/// Parses the expression that starts at the lexer's place and ends with the line.
pub(super) fn parse(lexer: Lexer<'_>, scope: &mut Scope) -> Result<Expr, Fault> {
    let mut parser = Parser {
        lexer,
        scope,
        depth: 0,
    };
    let (node, _) = parser.expression(0)?;
    match parser.lexer.next()? {
        (Token::End, _) => Ok(Expr(node)),
        (token, offset) => Err(unexpected(&token, offset, "the end of the expression")),
    }
}

/// Parses the columns of `\rows`, separated by commas: expressions, and texts in single quotes.
pub(super) fn parse_columns(lexer: Lexer<'_>, scope: &mut Scope) -> Result<Vec<Column>, Fault> {
    let mut parser = Parser {
        lexer,
        scope,
        depth: 0,
    };
    let mut columns = Vec::new();
    loop {
        columns.push(match parser.lexer.quoted()? {
            Some(text) => Column::Text(text),
            None => match parser.expression(0)?.0 {
                Node::Variable(slot) => Column::Variable(slot),
                node => Column::Expr(Expr(node)),
            },
        });
        match parser.lexer.next()? {
            (Token::End, _) => return Ok(columns),
            (Token::Symbol(","), _) => {}
            (token, offset) => {
                return Err(unexpected(&token, offset, "a comma or the end of the row"));
            }
        }
    }
}

/// A node and its height.
type Built = (Node, usize);

struct Parser<'a, 'n> {
    lexer: Lexer<'a>,
    scope: &'n mut Scope,
    depth: usize,
}

impl Parser<'_, '_> {
    /// An expression of operators that bind at least as tightly as `min`.
    fn expression(&mut self, min: u8) -> Result<Built, Fault> {
        self.depth += 1;
        let offset = self.lexer.peek()?.1;
        if self.depth > NESTING_MAX {
            return Err(too_deep(offset));
        }
        let mut left = self.operand()?;
        let mut compared = false;
        loop {
            let (token, offset) = self.lexer.peek()?;
            let Some((binding, operator, swapped)) = infix(&token) else {
                if min <= power::IS && is_test(&token) {
                    left = self.is_test(left)?;
                    compared = false;
                    continue;
                }
                break;
            };
            if binding < min {
                break;
            }
            if binding == power::COMPARE && compared {
                return Err(Fault::new(offset, "comparisons cannot be chained")
                    .hint("join them with \"and\", or use parentheses"));
            }
            self.lexer.next()?;
            let right = self.expression(binding + 1)?;
            left = binary(operator, left, right, swapped, offset)?;
            compared = binding == power::COMPARE;
        }
        self.depth -= 1;
        Ok(left)
    }

    /// A constant, variable, call, CASE, parenthesis, or an operator with what it applies to.
    fn operand(&mut self) -> Result<Built, Fault> {
        let (token, offset) = self.lexer.next()?;
        match token {
            Token::Symbol("(") => {
                let inner = self.expression(0)?;
                self.expect_symbol(")")?;
                Ok(inner)
            }
            Token::Symbol("+") => self.expression(power::SIGN),
            Token::Symbol("-") => self.negative(offset),
            Token::Symbol("~") => {
                let operand = self.expression(power::BITS + 1)?;
                binary(Operator::BitXor, int(-1), operand, false, offset)
            }
            Token::Word("not") => {
                let (operand, height) = self.expression(power::NOT)?;
                raised(Node::Not(Box::new(operand)), height, offset)
            }
            Token::Word("case") => self.case(offset),
            Token::Word("null") => Ok((Node::Constant(Value::Null), 1)),
            Token::Word("true") => Ok((Node::Constant(Value::Bool(true)), 1)),
            Token::Word("false") => Ok((Node::Constant(Value::Bool(false)), 1)),
            Token::Integer(value) => match i64::try_from(value) {
                Ok(value) => Ok(int(value)),
                Err(_) => Err(Fault::new(offset, "bigint constant overflow")
                    .hint("the largest is 9223372036854775807")),
            },
            Token::Double(value) => Ok((Node::Constant(Value::Double(value)), 1)),
            Token::Variable(name) => self.variable(name, offset),
            Token::Name(name) => self.call(name, offset),
            token => Err(unexpected(&token, offset, "a value")),
        }
    }

    /// `-x` is `0 - x`; only for the smallest integer is there no such x.
    fn negative(&mut self, offset: usize) -> Result<Built, Fault> {
        if let (Token::Integer(value), _) = self.lexer.peek()?
            && value == i64::MIN.unsigned_abs()
        {
            self.lexer.next()?;
            return Ok(int(i64::MIN));
        }
        let operand = self.expression(power::SIGN)?;
        binary(Operator::Subtract, int(0), operand, false, offset)
    }

    fn variable(&mut self, name: &str, offset: usize) -> Result<Built, Fault> {
        let slot = self.scope.used(name, offset)?;
        if self.lexer.peek()?.0 != Token::Symbol("[") {
            return Ok((Node::Variable(slot), 1));
        }
        self.lexer.next()?;
        let (index, height) = self.expression(0)?;
        self.expect_symbol("]")?;
        raised(Node::Element(slot, Box::new(index)), height, offset)
    }

    /// `is [not] null|true|false`, `isnull`, `notnull`.
    fn is_test(&mut self, (operand, height): Built) -> Result<Built, Fault> {
        let (token, offset) = self.lexer.next()?;
        let (negated, value) = match token {
            Token::Word("isnull") => (false, Value::Null),
            Token::Word("notnull") => (true, Value::Null),
            _ => {
                let negated = self.lexer.peek()?.0 == Token::Word("not");
                if negated {
                    self.lexer.next()?;
                }
                (negated, self.is_what()?)
            }
        };
        let (test, height) = raised(Node::Is(Box::new(operand), value), height, offset)?;
        if negated {
            raised(Node::Not(Box::new(test)), height, offset)
        } else {
            Ok((test, height))
        }
    }

    fn is_what(&mut self) -> Result<Value, Fault> {
        match self.lexer.next()? {
            (Token::Word("null"), _) => Ok(Value::Null),
            (Token::Word("true"), _) => Ok(Value::Bool(true)),
            (Token::Word("false"), _) => Ok(Value::Bool(false)),
            (token, offset) => Err(unexpected(&token, offset, "null, true or false")),
        }
    }

    /// `case when … then … [when … then …] [else …] end`, after its first word.
    fn case(&mut self, offset: usize) -> Result<Built, Fault> {
        let mut branches = Vec::new();
        let mut height = 0;
        self.expect_word("when")?;
        loop {
            let condition = self.expression(0)?;
            self.expect_word("then")?;
            let value = self.expression(0)?;
            height = height.max(condition.1).max(value.1);
            branches.push((condition.0, value.0));
            match self.lexer.next()? {
                (Token::Word("when"), _) => {}
                (Token::Word("else"), _) => {
                    let otherwise = self.expression(0)?;
                    self.expect_word("end")?;
                    height = height.max(otherwise.1);
                    let node = Node::Case(branches.into(), Box::new(otherwise.0));
                    return raised(node, height, offset);
                }
                (Token::Word("end"), _) => {
                    let otherwise = Box::new(Node::Constant(Value::Null));
                    return raised(Node::Case(branches.into(), otherwise), height, offset);
                }
                (token, offset) => return Err(unexpected(&token, offset, "when, else or end")),
            }
        }
    }

    /// A function call, after its name.
    fn call(&mut self, name: &str, offset: usize) -> Result<Built, Fault> {
        let Some(entry) = functions::find(name) else {
            let fault = Fault::new(offset, format!("unknown function \"{name}\""));
            let known = closest(name, FUNCTIONS.iter().map(|entry| entry.name));
            return Err(if let Some(hint) = known {
                fault.hint(hint)
            } else {
                fault
            });
        };
        self.expect_symbol("(")?;
        let mut arguments = Vec::new();
        let mut height = 0;
        if self.lexer.peek()?.0 != Token::Symbol(")") {
            loop {
                let argument = self.expression(0)?;
                height = height.max(argument.1);
                arguments.push(argument.0);
                if self.lexer.peek()?.0 != Token::Symbol(",") {
                    break;
                }
                self.lexer.next()?;
            }
        }
        self.expect_symbol(")")?;
        if let Some(complaint) = entry.complaint(arguments.len()) {
            return Err(Fault::new(offset, complaint));
        }
        if entry.seeded && arguments.len() < entry.arguments.1 {
            arguments.push(Node::Variable(Names::DEFAULT_SEED));
        }
        raised(Node::Call(entry.function, arguments.into()), height, offset)
    }

    fn expect_symbol(&mut self, symbol: &'static str) -> Result<(), Fault> {
        let (token, offset) = self.lexer.next()?;
        if token == Token::Symbol(symbol) {
            return Ok(());
        }
        Err(unexpected(&token, offset, &format!("\"{symbol}\"")))
    }

    fn expect_word(&mut self, word: &'static str) -> Result<(), Fault> {
        let (token, offset) = self.lexer.next()?;
        if token == Token::Word(word) {
            return Ok(());
        }
        Err(unexpected(&token, offset, word))
    }
}

/// Binding power, operator, and whether its operands are swapped.
fn infix(token: &Token<'_>) -> Option<(u8, Operator, bool)> {
    let Token::Symbol(symbol) = token else {
        return match token {
            Token::Word("or") => Some((power::OR, Operator::Or, false)),
            Token::Word("and") => Some((power::AND, Operator::And, false)),
            _ => None,
        };
    };
    Some(match *symbol {
        "<" => (power::COMPARE, Operator::Less, false),
        "<=" => (power::COMPARE, Operator::LessOrEqual, false),
        ">" => (power::COMPARE, Operator::Less, true),
        ">=" => (power::COMPARE, Operator::LessOrEqual, true),
        "=" => (power::COMPARE, Operator::Equal, false),
        "<>" => (power::COMPARE, Operator::NotEqual, false),
        "|" => (power::BITS, Operator::BitOr, false),
        "#" => (power::BITS, Operator::BitXor, false),
        "&" => (power::BITS, Operator::BitAnd, false),
        "<<" => (power::BITS, Operator::ShiftLeft, false),
        ">>" => (power::BITS, Operator::ShiftRight, false),
        "+" => (power::SUM, Operator::Add, false),
        "-" => (power::SUM, Operator::Subtract, false),
        "*" => (power::PRODUCT, Operator::Multiply, false),
        "/" => (power::PRODUCT, Operator::Divide, false),
        "%" => (power::PRODUCT, Operator::Modulo, false),
        _ => return None,
    })
}

fn is_test(token: &Token<'_>) -> bool {
    matches!(token, Token::Word("is" | "isnull" | "notnull"))
}

fn int(value: i64) -> Built {
    (Node::Constant(Value::Int(value)), 1)
}

fn binary(
    operator: Operator,
    left: Built,
    right: Built,
    swapped: bool,
    offset: usize,
) -> Result<Built, Fault> {
    let height = left.1.max(right.1);
    let pair = if swapped {
        (right.0, left.0)
    } else {
        (left.0, right.0)
    };
    raised(Node::Binary(operator, Box::new(pair)), height, offset)
}

/// The node on top of others that are `height` high.
fn raised(node: Node, height: usize, offset: usize) -> Result<Built, Fault> {
    if height >= HEIGHT_MAX {
        Err(too_deep(offset))
    } else {
        Ok((node, height + 1))
    }
}

fn too_deep(offset: usize) -> Fault {
    Fault::new(offset, "the expression is nested too deeply")
        .hint("split it over several \\set commands")
}

fn unexpected(token: &Token<'_>, offset: usize, wanted: &str) -> Fault {
    let found = match token {
        Token::End => "the end of the line".to_owned(),
        Token::Symbol(text) | Token::Word(text) => format!("\"{text}\""),
        Token::Name(text) => format!("\"{text}\""),
        Token::Variable(name) => format!("\":{name}\""),
        Token::Integer(value) => format!("\"{value}\""),
        Token::Double(value) => format!("\"{value}\""),
    };
    Fault::new(offset, format!("found {found} where {wanted} should be"))
}
